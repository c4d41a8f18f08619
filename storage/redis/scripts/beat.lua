-- Renew the leases of what one worker holds.
-- KEYS none. ARGV: 1 worker, 2 lease (ms); then id and fence of each job
-- Returns the ids it holds no more: finished, canceled, expired, or given to another claim.
local lost = {}
for i = 3, #ARGV, 2 do
  local id, key = ARGV[i], 'job:' .. ARGV[i]
  local r = redis.call('HMGET', key, 'status', 'fence', 'worker')
  if r[1] == 'running' and r[2] == ARGV[i + 1] and r[3] == ARGV[1] then
    redis.call('HSET', key, 'lease_until', now + ARGV[2])
    redis.call('ZADD', 'leases', now + ARGV[2], id)
  else
    lost[#lost + 1] = id
  end
end
return lost
