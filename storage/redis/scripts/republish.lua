-- Publish again what is queued and has no message: one popped by a worker that died at once.
-- KEYS none. ARGV: 1 how long a message must be missing (ms), 2 jobs to look at on each list,
--   3 publications without a claim after which a job is buried (its message cannot be read by any worker)
-- Returns the ids published again. A list as long as its index is not read at all.
local patience, depth, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local back, missing = {}, {}
for _, id in ipairs(redis.call('ZRANGE', 'missing', 0, -1)) do
  missing[id] = true
end

-- A worker pops the message an instant before it claims: missing twice, `patience` apart.
local function has_waited(id)
  local since = redis.call('ZSCORE', 'missing', id)
  if not since then
    redis.call('ZADD', 'missing', now, id)
    since = now
  end
  return now - tonumber(since) >= patience
end

local function consider(id, list, tail)
  local r = redis.call('HMGET', 'job:' .. id, 'status', 'message', 'publication', 'tenant', 'queue')
  if r[1] ~= 'queued' then
    leave_queue(id, r[4] or '', r[5] or '', list, false)
    return
  end
  local message = message_of(r[2], id, r[3])
  if tail[message] then
    if missing[id] then
      redis.call('ZREM', 'missing', id)
    end
  elseif has_waited(id) and not redis.call('LPOS', list, message, 'RANK', -1) then
    local rings = redis.call('HINCRBY', 'job:' .. id, 'rings', 1)
    if rings >= most then
      bury(id, 'undeliverable', 'No worker could read the message of the job',
        'It was published ' .. rings .. ' times. Ask the operator.')
    else
      requeue(id, 'republished')
      back[#back + 1] = id
    end
  end
end

-- The oldest of the index are the last of the list, so that end is compared first.
local function audit(list)
  local index = 'waiting:' .. list
  local length = redis.call('LLEN', list)
  if redis.call('ZCARD', index) <= length then
    return
  end
  local tail = {}
  for _, message in ipairs(redis.call('LRANGE', list, -2 * depth, -1)) do
    tail[message] = true
  end
  for _, id in ipairs(redis.call('ZRANGE', index, 0, depth - 1)) do
    consider(id, list, tail)
  end
end

-- A worker's own queue is forgotten with its last job: hosts come and go.
local function is_empty(queue)
  for _, priority in ipairs(PRIORITIES) do
    local list = list_of(queue, priority)
    if redis.call('EXISTS', list, 'waiting:' .. list) > 0 then
      return false
    end
  end
  return true
end

-- What was claimed or has ended since is missed no more.
for id in pairs(missing) do
  if redis.call('HGET', 'job:' .. id, 'status') ~= 'queued' then
    redis.call('ZREM', 'missing', id)
  end
end
for _, queue in ipairs(redis.call('SMEMBERS', 'queues')) do
  for _, priority in ipairs(PRIORITIES) do
    audit(list_of(queue, priority))
  end
  if string.find(queue, '@', 1, true) and is_empty(queue) then
    redis.call('SREM', 'queues', queue)
  end
end
return back
