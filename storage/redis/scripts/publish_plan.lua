-- Put a plan in force, unless there has been a later leader, whether it has spoken yet or not, or
-- this one has spoken with a later version. What it gives to each worker is kept beside it, so that
-- no worker reads what all others are given.
-- KEYS none. ARGV: 1 fence of the leader, 2 version, 3 document, 4 takes latents (1 or 0),
--   5 version of this leader after which workers were given what follows (-1: that is all there is);
--   then worker and model of each (empty: none any more)
-- Returns 1; 0: refused; 2: nothing is done, as version 5 is not in force: tell what all are given.
local r = redis.call('HMGET', 'plan', 'fence', 'version')
local fence, version = tonumber(r[1] or '-1'), tonumber(r[2] or '-1')
local elected = tonumber(redis.call('GET', 'leader:scheduler:fence') or '-1')
local by_same_leader = tonumber(ARGV[1]) == fence
if tonumber(ARGV[1]) < math.max(fence, elected) or (by_same_leader and tonumber(ARGV[2]) <= version) then
  return 0
end
if ARGV[5] == '-1' then
  redis.call('DEL', 'plan:assignments')
elseif not by_same_leader or version ~= tonumber(ARGV[5]) then
  return 2
end
for i = 6, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', 'plan:assignments', ARGV[i])
  else
    redis.call('HSET', 'plan:assignments', ARGV[i], ARGV[i + 1])
  end
end
redis.call('HSET', 'plan', 'fence', ARGV[1], 'version', ARGV[2], 'document', ARGV[3], 'takes_latents', ARGV[4])
redis.call('PUBLISH', 'plan', ARGV[2])
return 1
