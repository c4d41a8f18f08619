-- Hand running jobs back, to be popped next; the attempt is not counted against them.
-- KEYS none. ARGV: 1 worker; then id and fence of each job
-- Returns how many were handed back.
local released = 0
for i = 2, #ARGV, 2 do
  local id, key = ARGV[i], 'job:' .. ARGV[i]
  local r = redis.call('HMGET', key, 'status', 'fence', 'worker', 'attempts', 'history', 'followed')
  if r[1] == 'running' and r[2] == ARGV[i + 1] and r[3] == ARGV[1] then
    redis.call('HINCRBY', key, 'attempts', -1)
    requeue(id, 'released')
    tell_back(id, {r[2], r[4], r[5], r[6]})
    released = released + 1
  end
end
return released
