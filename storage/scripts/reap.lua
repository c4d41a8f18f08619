-- Take jobs from workers whose lease ran out: back on the queue, or buried after too many tries.
-- KEYS none. ARGV: 1 most attempts, 2 jobs to look at
-- Returns {ids put back, ids ended}.
local back, ended = {}, {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'leases', '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local r = redis.call('HMGET', 'job:' .. id, 'status', 'attempts', 'deadline_at')
  if r[1] ~= 'running' then
    redis.call('ZREM', 'leases', id)
  else
    stop(id)
    if is_over(r[3]) then
      close(id, 'expired')
      ended[#ended + 1] = id
    elseif tonumber(r[2]) >= tonumber(ARGV[1]) then
      bury(id, 'attempts_exhausted', 'The job was tried too often',
        'Its worker was lost ' .. r[2] .. ' times. Send it again, or ask the operator.')
      ended[#ended + 1] = id
    else
      requeue(id, 'reaped')
      emit(id, 'status', '{"status":"queued"}')
      back[#back + 1] = id
    end
  end
end
return {back, ended}
