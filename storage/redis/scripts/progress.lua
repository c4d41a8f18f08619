-- Say how far running jobs have come; what another claim owns by now is left alone.
-- KEYS none. ARGV: 1 worker, 2 pause between two progress webhooks of a job (ms);
--   then id, fence, step, steps, preview (a document, or nothing) and time of the device (ms) of each job
-- Returns the ids of those among them that somebody watches.
local KEEP_PREVIEW_S = 60
local watched = {}
for i = 3, #ARGV, 6 do
  local id, key, fence = ARGV[i], 'job:' .. ARGV[i], ARGV[i + 1]
  local r = redis.call('HMGET', key, 'status', 'fence', 'worker', 'webhook_events', 'posted_at')
  if r[1] == 'running' and r[2] == fence and r[3] == ARGV[1] then
    local data = '{"step":' .. ARGV[i + 2] .. ',"steps":' .. ARGV[i + 3] .. '}'
    redis.call('HSET', key, 'step', ARGV[i + 2], 'steps', ARGV[i + 3], 'gpu_ms', ARGV[i + 5])
    if ARGV[i + 4] ~= '' then  -- before its followers are woken
      redis.call('SET', 'preview:' .. id, ARGV[i + 4], 'EX', KEEP_PREVIEW_S)
    end
    emit(id, 'progress', data)
    if r[4] and now - tonumber(r[5] or '0') >= tonumber(ARGV[2]) then
      redis.call('HSET', key, 'posted_at', now)
      post(id, 'progress', id .. ':progress:' .. fence .. ':' .. ARGV[i + 2], data)
    end
    if redis.call('EXISTS', 'watched:' .. id) == 1 then
      watched[#watched + 1] = id
    end
  end
end
return watched
