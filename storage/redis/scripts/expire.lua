-- End jobs whose deadline has passed; a worker that runs one is told to stop.
-- KEYS none. ARGV: 1 jobs to look at
-- Returns the ids ended.
local ended = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'deadlines', '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local status = redis.call('HGET', 'job:' .. id, 'status')
  if status == 'running' then
    stop(id)
  end
  if status == 'queued' or status == 'running' then
    close(id, 'expired')
    ended[#ended + 1] = id
  else
    redis.call('ZREM', 'deadlines', id)
  end
end
return ended
