-- Renew the leases of what one worker holds, and say how far it has come.
-- KEYS none. ARGV: 1 worker, 2 lease (ms), 3 pause between two progress webhooks of a job (ms);
--   then id, fence, step (empty: not known), steps, time of the device (ms) and preview (a document,
--   or nothing) of each job
-- Returns for each: 0 it is held no more: finished, canceled, expired, or given to another claim;
--   1 it is held; 2 somebody follows it; 3 and wants previews.
local KEEP_PREVIEW_S = 60
local heard, leases = {}, {}

local function is_until(time)
  return time and tonumber(time) > now
end

local function is_posted(r)
  return r[8] and string.find(r[8], 'progress', 1, true)
end

local function tell(id, at, told, r)
  local data = '{"step":' .. told .. ',"steps":' .. ARGV[at + 3] .. '}'
  if ARGV[at + 5] ~= '' then  -- before its followers are woken
    redis.call('SET', 'preview:' .. id, ARGV[at + 5], 'EX', KEEP_PREVIEW_S)
  end
  if is_until(r[4]) and (told ~= r[6] or ARGV[at + 5] ~= '') then
    emit(id, 'progress', data, true)
  end
  if is_posted(r) and told ~= r[6] and now - tonumber(r[10] or '0') >= tonumber(ARGV[3]) then
    redis.call('HSET', 'job:' .. id, 'posted_at', now)
    post(id, 'progress', id .. ':progress:' .. ARGV[at + 1] .. ':' .. told, data,
      {r[7], r[8], r[9], r[11]})
  end
end

local function renew(at)
  local id, key, step = ARGV[at], 'job:' .. ARGV[at], ARGV[at + 2]
  local r = redis.call('HMGET', key, 'status', 'fence', 'worker', 'followed', 'previewed', 'step',
    'webhook_url', 'webhook_events', 'retries', 'posted_at', 'tenant')
  if r[1] ~= 'running' or r[2] ~= ARGV[at + 1] or r[3] ~= ARGV[1] then
    return 0
  end
  leases[#leases + 1], leases[#leases + 2] = now + ARGV[2], id
  if step == '' then
    redis.call('HSET', key, 'lease_until', now + ARGV[2])
  else
    redis.call('HSET', key, 'lease_until', now + ARGV[2], 'step', step, 'steps', ARGV[at + 3],
      'gpu_ms', ARGV[at + 4])
    tell(id, at, step, r)
  end
  if is_until(r[5]) then
    return 3
  end
  return (is_until(r[4]) or is_posted(r)) and 2 or 1
end

for at = 4, #ARGV, 6 do
  heard[#heard + 1] = renew(at)
end
if #leases > 0 then
  redis.call('ZADD', 'leases', unpack(leases))
end
return heard
