-- Say that somebody follows a job: what happens to it is kept as events from now on, after what has
-- happened before, and its progress is told for a while.
-- KEYS none. ARGV: 1 id, 2 for how long progress is told (ms; 0: that it ends is enough), 3 for how
--   long previews are made (ms)
-- Returns its status; false: no such job.
local id, key = ARGV[1], 'job:' .. ARGV[1]
local r = redis.call('HMGET', key, 'status', 'followed', 'previewed', 'attempts', 'history',
  'step', 'steps')

local function tell(event, data)
  redis.call('XADD', 'events:' .. id, '*', 'event', event, 'data', data)
end

-- Write down what has happened while nobody followed.
local function tell_past()
  for attempts in string.gmatch(r[5] or '', ':(%d*)') do
    tell('status', attempts == '' and '{"status":"queued"}' or running_of(attempts))
  end
  if r[1] == 'running' then
    tell('status', running_of(r[4]))
    if r[7] then
      tell('progress', '{"step":' .. r[6] .. ',"steps":' .. r[7] .. '}')
    end
  end
end

if r[1] ~= 'queued' and r[1] ~= 'running' then
  return r[1]
end
if not r[2] then
  tell_past()
end
local function later(before, ms)
  return string.format('%.0f', math.max(tonumber(before or 0), now + ms))
end
redis.call('HSET', key, 'followed', later(r[2], ARGV[2]))
if ARGV[3] ~= '0' then
  redis.call('HSET', key, 'previewed', later(r[3], ARGV[3]))
end
-- Its worker asks what is wanted when it is rung for, and else when it renews its lease.
if ARGV[2] ~= '0' and (tonumber(r[2] or 0) <= now or (ARGV[3] ~= '0' and tonumber(r[3] or 0) <= now)) then
  stop(id)
end
return r[1]
