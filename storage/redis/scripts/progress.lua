-- Say how far running jobs have come; what another claim owns by now is left alone.
-- KEYS none. ARGV: 1 worker, 2 pause between two progress webhooks of a job (ms);
--   then id, fence, step, steps of each job
-- Returns how many were written.
local written = 0
for i = 3, #ARGV, 4 do
  local id, key, fence = ARGV[i], 'job:' .. ARGV[i], ARGV[i + 1]
  local r = redis.call('HMGET', key, 'status', 'fence', 'worker', 'webhook_events', 'posted_at')
  if r[1] == 'running' and r[2] == fence and r[3] == ARGV[1] then
    local data = '{"step":' .. ARGV[i + 2] .. ',"steps":' .. ARGV[i + 3] .. '}'
    redis.call('HSET', key, 'step', ARGV[i + 2], 'steps', ARGV[i + 3])
    emit(id, 'progress', data)
    if r[4] and now - tonumber(r[5] or '0') >= tonumber(ARGV[2]) then
      redis.call('HSET', key, 'posted_at', now)
      post(id, 'progress', id .. ':progress:' .. fence .. ':' .. ARGV[i + 2], data)
    end
    written = written + 1
  end
end
return written
