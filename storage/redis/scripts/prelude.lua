#!lua flags=allow-oom
-- What every script shares: storage/redis/script.py puts this before each of them.
-- Times are epoch milliseconds of this server; TIME is the only clock of the state machine.
-- Keys: see the table in storage/redis/keys.py.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local MAX_EVENTS = 500
local KEEP_EVENTS_S = 86400

local function count(name)
  redis.call('HINCRBY', 'stats', name, 1)
end

-- The list kombu pops for one queue and priority.
local function list_of(queue, priority)
  if priority == '0' then
    return queue
  end
  return queue .. '\6\22' .. priority
end

-- The message as it goes on the list: its delivery tag names the job and the publication.
local function message_of(template, id, publication)
  local tag = string.gsub(id .. ':' .. publication, '%%', '%%%%')
  return (string.gsub(template, '@@TAG@@', tag))
end

local function emit(id, event, data)
  local stream = 'events:' .. id
  redis.call('XADD', stream, 'MAXLEN', '~', MAX_EVENTS, '*', 'event', event, 'data', data)
  redis.call('PUBLISH', 'bell:' .. id, event)
end

-- A job that is dug up says everything again, under names that receivers have not seen.
local function of_life(name, retries)
  return retries and name .. ':again' .. retries or name
end

-- Put a webhook in the outbox if the job asked for this event; `name` stays the same over retries.
local function post(id, event, name, data)
  local hook = redis.call('HMGET', 'job:' .. id, 'webhook_url', 'webhook_events', 'retries')
  if not hook[1] or not string.find(hook[2], event, 1, true) then
    return
  end
  name = of_life(name, hook[3])
  redis.call('HSET', 'delivery:' .. name, 'job', id, 'url', hook[1], 'event', event,
    'attempt', 0, 'body', data)
  redis.call('ZADD', 'outbox', now, name)
end

-- Take a queued job from its list and index.
local function withdraw(id, queue, priority, template, publication)
  local list = list_of(queue, priority)
  redis.call('ZREM', 'waiting:' .. list, id)
  redis.call('ZREM', 'missing', id)
  redis.call('LREM', list, -1, message_of(template, id, publication))
end

-- Tell whether a job ends without having kept its SLO: too late, or without images. Who cancels
-- a job wants none.
local function is_violation(status, slo, since)
  if not slo or status == 'canceled' then
    return false
  end
  return status ~= 'succeeded' or now - tonumber(since) > tonumber(slo)
end

-- Move a job to a terminal status: indexes, counters, event and webhook in one step.
-- The caller has checked that it is queued or running. More fields may follow.
local function close(id, status, ...)
  local key = 'job:' .. id
  local r = redis.call('HMGET', key, 'status', 'queue', 'priority', 'message', 'publication',
    'task', 'level', 'slo', 'created_at', 'retried_at', 'worker')
  if r[1] == 'queued' then
    withdraw(id, r[2], r[3], r[4], r[5])
  else
    redis.call('SREM', 'held:' .. r[11], id)
  end
  redis.call('ZREM', 'leases', id)
  redis.call('ZREM', 'deadlines', id)
  redis.call('ZADD', 'finished', now, id)
  redis.call('HSET', key, 'status', status, 'finished_at', now, ...)
  redis.call('HDEL', key, 'message', 'lease_until', 'suspect', 'alone', 'verdict')
  redis.call('HINCRBY', key, 'finishes', 1)
  count('finished')
  count('jobs:' .. r[6] .. ':' .. status)
  if status == 'succeeded' then
    count('level:' .. r[7])
  end
  if is_violation(status, r[8], r[10] or r[9]) then
    count('slo_violations')
  end
  local data = '{"status":"' .. status .. '"}'
  emit(id, 'done', data)
  redis.call('EXPIRE', 'events:' .. id, KEEP_EVENTS_S)
  post(id, 'completed', id .. ':completed', data)
end

-- Put a job (back) on its list, where it is popped next, under a fresh delivery tag.
local function requeue(id, reason)
  local key = 'job:' .. id
  local r = redis.call('HMGET', key, 'queue', 'priority', 'message', 'publication', 'created_at',
    'retried_at', 'status', 'worker')
  local list = list_of(r[1], r[2])
  if r[7] == 'running' then
    redis.call('SREM', 'held:' .. r[8], id)
  end
  local tag = id .. ':' .. r[4]
  redis.call('HDEL', 'unacked', tag)
  redis.call('ZREM', 'unacked_index', tag)
  local publication = redis.call('HINCRBY', key, 'publication', 1)
  redis.call('HSET', key, 'status', 'queued')
  redis.call('HDEL', key, 'lease_until')
  redis.call('ZREM', 'leases', id)
  redis.call('ZREM', 'missing', id)
  redis.call('ZADD', 'waiting:' .. list, r[6] or r[5], id)
  redis.call('RPUSH', list, message_of(r[3], id, publication))
  count(reason)
end

-- Tell the worker that holds a job to drop it.
local function stop(id)
  local worker = redis.call('HGET', 'job:' .. id, 'worker')
  if worker then
    redis.call('PUBLISH', 'stop:' .. worker, id)
  end
end

local function is_over(deadline_at)
  return deadline_at and deadline_at ~= '' and now >= tonumber(deadline_at)
end

-- Bury a job that used up its chances; `retry` digs it up.
local function bury(id, kind, title, detail)
  local failure = cjson.encode({type = kind, title = title, detail = detail})
  local r = redis.call('HMGET', 'job:' .. id, 'tenant', 'created_at')
  count('jobs_dead')
  redis.call('ZADD', 'buried:' .. r[1], r[2], id)
  close(id, 'failed', 'failure', failure, 'buried', 1)
end

-- Bury a job whose workers were lost while they made it.
local function bury_deadly(id, attempts)
  bury(id, 'attempts_exhausted', 'The job was tried too often', 'Its worker was lost ' .. attempts ..
    ' times. Try it again (POST /v1/jobs/' .. id .. '/retry), or ask the operator.')
end
