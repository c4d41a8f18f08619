-- Write tenants' API keys, unless others have changed any since they were read.
-- KEYS none. ARGV: 1 version that was read, 2 version from now on, then id and document of each key
-- Returns 1; 0: another change came first, nothing is written.
if (redis.call('GET', 'keys:version') or '') ~= ARGV[1] then
  return 0
end
for i = 3, #ARGV, 2 do
  redis.call('HSET', 'keys', ARGV[i], ARGV[i + 1])
end
redis.call('SET', 'keys:version', ARGV[2])
return 1
