-- Note that a worker makes a job alone from now on: if it is lost, this job is to blame.
-- KEYS none. ARGV: 1 id, 2 fence, 3 worker
-- Returns 1; 0: the caller's claim does not own the job any more.
local key = 'job:' .. ARGV[1]
local r = redis.call('HMGET', key, 'status', 'fence', 'worker')
if r[1] ~= 'running' or r[2] ~= ARGV[2] or r[3] ~= ARGV[3] then
  return 0
end
redis.call('HSET', key, 'alone', ARGV[2])
return 1
