-- Put a plan in force, unless there has been a later leader, whether it has spoken yet or not, or
-- this one has spoken with a later version.
-- KEYS none. ARGV: 1 fence of the leader, 2 version, 3 document
-- Returns 1; 0: refused.
local r = redis.call('HMGET', 'plan', 'fence', 'version')
local fence, version = tonumber(r[1] or '-1'), tonumber(r[2] or '-1')
local elected = tonumber(redis.call('GET', 'leader:scheduler:fence') or '-1')
local by_same_leader = tonumber(ARGV[1]) == fence
if tonumber(ARGV[1]) < math.max(fence, elected) or (by_same_leader and tonumber(ARGV[2]) <= version) then
  return 0
end
redis.call('HSET', 'plan', 'fence', ARGV[1], 'version', ARGV[2], 'document', ARGV[3])
redis.call('PUBLISH', 'plan', ARGV[2])
return 1
