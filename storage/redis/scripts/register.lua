-- Register an application under a name that its tenant has not used.
-- KEYS none. ARGV: 1 tenant, 2 name, 3 document, 4 applications a tenant may have
-- Returns 1; 0: the name is taken; -1: the tenant has as many as it may.
local key = 'applications:' .. ARGV[1]
if redis.call('HEXISTS', key, ARGV[2]) == 1 then
  return 0
end
if redis.call('HLEN', key) >= tonumber(ARGV[4]) then
  return -1
end
redis.call('HSET', key, ARGV[2], ARGV[3])
redis.call('SADD', 'applications', ARGV[1])
return 1
