-- Write rows of a table, unless others have changed any since they were read.
-- KEYS none. ARGV: 1 table, 2 version that was read, 3 version from now on, then id and document of each
-- Returns 1, also to a repeated call; 0: another change came first, nothing is written.
local version = ARGV[1] .. ':version'
local found = redis.call('GET', version) or ''
if found ~= ARGV[2] then
  return found == ARGV[3] and 1 or 0
end
for i = 4, #ARGV, 2 do
  redis.call('HSET', ARGV[1], ARGV[i], ARGV[i + 1])
end
redis.call('SET', version, ARGV[3])
return 1
