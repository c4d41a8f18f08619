-- What scripts share: storage/redis/script.py puts before each what it uses of this.
-- Times are epoch milliseconds of this server; TIME is the only clock of the state machine.
-- Keys: see the table in storage/redis/keys.py.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The same in words: a server spells each number that a command is given, at a third of its cost.
local stamp = string.format('%.0f', now)

local MAX_EVENTS = 500
local KEEP_EVENTS_S = 600

local function count(name)
  redis.call('HINCRBY', 'stats', name, '1')
end

local PRIORITIES = {'0', '6', '9'}

-- The list kombu pops for one queue and priority.
local function list_of(queue, priority)
  if priority == '0' then
    return queue
  end
  return queue .. '\6\22' .. priority
end

-- The message as it goes on the list: its delivery tag names the job and the publication.
local function message_of(template, id, publication)
  local from, to = string.find(template, '@@TAG@@', 1, true)
  if not from then
    return template
  end
  return string.sub(template, 1, from - 1) .. id .. ':' .. publication .. string.sub(template, to + 1)
end

-- Tell those who follow a job, if anybody ever did: `follow` writes down what was before.
local function emit(id, event, data, followed)
  if followed then
    redis.call('XADD', 'events:' .. id, 'MAXLEN', '~', MAX_EVENTS, '*', 'event', event, 'data', data)
    redis.call('PUBLISH', 'bell:' .. id, event)
  end
end

local function running_of(attempts)
  return '{"status":"running","attempts":' .. attempts .. '}'
end

-- Tell that a running job waits again, and keep for who follows later that it ran; `r`: its fence,
-- attempts when it was claimed, `history` and `followed`.
local function tell_back(id, r)
  local history = (r[3] and r[3] .. ',' or '') .. r[1] .. ':' .. r[2] .. ',' .. string.format('%.0f:', now)
  redis.call('HSET', 'job:' .. id, 'history', history)
  emit(id, 'status', '{"status":"queued"}', r[4])
end

-- A job that is dug up says everything again, under names that receivers have not seen.
local function of_life(name, retries)
  return retries and name .. ':again' .. retries or name
end

local KEEP_PENDING_S = 259200  -- without a new one: an older version settles and leaves the index

-- Enter a delivery that is to be made into its tenant's index of those.
local function enter_pending(name, tenant)
  redis.call('ZADD', 'pending:' .. tenant, now, name)
  redis.call('EXPIRE', 'pending:' .. tenant, KEEP_PENDING_S)
end

-- Put a webhook in the outbox if the job asked for this event; `name` stays the same over retries.
-- `hook`: `webhook_url`, `webhook_events`, `retries` and `tenant` of its record.
local function post(id, event, name, data, hook)
  if not hook[1] or not string.find(hook[2], event, 1, true) then
    return
  end
  name = of_life(name, hook[3])
  redis.call('HSET', 'delivery:' .. name, 'job', id, 'url', hook[1], 'event', event,
    'attempt', 0, 'body', data, 'tenant', hook[4])
  redis.call('ZADD', 'outbox', now, name)
  enter_pending(name, hook[4])
end

-- Take a delivery from those that are to be made.
local function take_out(name, tenant)
  redis.call('ZREM', 'outbox', name)
  if tenant then  -- else an older version posted it
    redis.call('ZREM', 'pending:' .. tenant, name)
  end
end

-- A delivery that was given up is kept for a week.
local KEEP_DEAD_S = 604800
local MAX_DROPPED = 100  -- in one call: others wait meanwhile

-- Name the index of a delivery that is given up: its tenant's. Those that an older version posted name
-- their job alone; where that is not here they go to the index of older versions, which nobody lists.
local function dead_index(name)
  local r = redis.call('HMGET', 'delivery:' .. name, 'tenant', 'job')
  local tenant = r[1] or r[2] and redis.call('HGET', 'job:' .. r[2], 'tenant')
  return tenant and 'outbox:dead:' .. tenant or 'outbox:dead'
end

-- Drop the oldest of what was given up: those beyond their time, or beyond `most`.
local function drop_oldest(index, most)
  local too_many = redis.call('ZCARD', index) - most
  local too_old = redis.call('ZCOUNT', index, '-inf', now - KEEP_DEAD_S * 1000)
  local dropped = math.min(math.max(too_many, too_old, 0), MAX_DROPPED)
  local popped = redis.call('ZPOPMIN', index, dropped)
  for at = 1, #popped, 2 do
    redis.call('DEL', 'delivery:' .. popped[at])
  end
end

-- Keep a delivery that is to be made no more. An index ends by itself a week after its latest entry.
local function keep_dead(name, most)
  local index = dead_index(name)
  redis.call('EXPIRE', 'delivery:' .. name, KEEP_DEAD_S)
  redis.call('ZADD', index, now, name)
  redis.call('EXPIRE', index, KEEP_DEAD_S)
  drop_oldest(index, most)
end

-- What a tenant has open, keeps and has used. Jobs are counted as they are accepted and as they end,
-- each once, in the script that does it; who digs one up takes back that it had failed.
local DAY_MS = 86400000
local KEEP_USAGE_S = 400 * 86400

-- Add to fields of one hash; tells whether none was there.
local function add_to(key, fields)
  local names, flat, is_new = {}, {}, true
  for name, by in pairs(fields) do
    if by ~= 0 then
      names[#names + 1] = name
    end
  end
  if #names == 0 then
    return false
  end
  if #names == 1 then
    local by = fields[names[1]]
    return redis.call('HINCRBY', key, names[1], string.format('%.0f', by)) == by
  end
  for at, value in ipairs(redis.call('HMGET', key, unpack(names))) do
    is_new = is_new and not value
    flat[#flat + 1], flat[#flat + 2] = names[at], string.format('%.0f', tonumber(value or 0) + fields[names[at]])
  end
  redis.call('HSET', key, unpack(flat))
  return is_new
end

local function use(tenant, day, fields)
  local key = 'usage:' .. tenant .. ':' .. day
  if add_to(key, fields) then
    redis.call('EXPIRE', key, KEEP_USAGE_S)
  end
end

local function day_of(ms)
  return string.format('%d', math.floor(tonumber(ms) / DAY_MS))
end

local function book(tenant, field, by)
  if by ~= 0 then
    redis.call('HINCRBY', 'account:' .. tenant, field, string.format('%.0f', by))
  end
end

-- Count a job that is to be made: what it may leave is promised until it has ended. Its record has
-- the day.
local function open_account(id, tenant, images, leaves)
  redis.call('SADD', 'open:' .. tenant, id)
  book(tenant, 'promised', leaves)
  use(tenant, day_of(now), {asked = images})
end

-- Count how a job has ended. What was not made of the images of a day may be asked for again.
local function close_account(id, r, status, bytes)
  local tenant, images, today = r.tenant, tonumber(r.images_asked or '0'), day_of(now)
  local is_made = status == 'succeeded'
  redis.call('SREM', 'open:' .. tenant, id)
  local held = redis.call('HMGET', 'account:' .. tenant, 'promised', 'bytes', 'took')
  local took = tonumber(held[3] or '0')
  redis.call('HSET', 'account:' .. tenant,
    'promised', string.format('%.0f', tonumber(held[1] or '0') - tonumber(r.leaves or '0')),
    'bytes', string.format('%.0f', tonumber(held[2] or '0') + (is_made and bytes or 0)),
    'took', string.format('%.0f', took + (now - tonumber(r.retried_at or r.created_at) - took) / 8))
  local used = {['jobs:' .. status] = 1, images = is_made and images or 0}
  if r.device and r.device ~= '' then
    used['gpu_ms:' .. r.device] = tonumber(r.gpu_ms or '0')
  end
  use(tenant, today, used)
  if not is_made then
    use(tenant, r.day or today, {asked = -images})
  end
end

local function reopen_account(id)
  local r = redis.call('HMGET', 'job:' .. id, 'tenant', 'images_asked', 'leaves', 'finished_at',
    'status')
  use(r[1], day_of(r[4]), {['jobs:' .. r[5]] = -1})
  redis.call('HSET', 'job:' .. id, 'day', day_of(now))
  open_account(id, r[1], tonumber(r[2] or '0'), tonumber(r[3] or '0'))
end

-- Queued jobs are served tenant by tenant: start-time fair queueing (Goyal, Vin, Cheng 1996). A job
-- starts, in units of work, where the tenant's last one ends, or at what is served now if that is
-- later. A job that comes back goes before all others, the oldest first.
local AT_ONCE = -1e15

local function start_of(list, tenant)
  local r = redis.call('ZMSCORE', 'shares:' .. list, '', tenant)
  return math.max(tonumber(r[1] or 0), tonumber(r[2] or 0))
end

local function exact(number)
  return string.format('%.17g', number)
end

-- Enter a queued job into the indexes of its list; without work it is served at once. `is_first`:
-- nothing is known to wait there, so that nobody has been served.
local function enter_queue(id, tenant, queue, list, since, work, is_first)
  redis.call('ZADD', 'waiting:' .. list, since, id)
  local start = AT_ONCE + since
  if work then
    start = is_first and 0 or start_of(list, tenant)
    redis.call('ZADD', 'shares:' .. list, exact(start + work), tenant)
  end
  redis.call('ZADD', 'turns:' .. list, exact(start), id)
  redis.call('HINCRBY', 'queued:' .. queue, tenant, '1')
end

-- Note how far a list is served; those of whom nothing waits and who were served less start there.
local function note_served(list, start, has_left)
  if start >= 0 then
    redis.call('ZADD', 'shares:' .. list, 'GT', exact(start), '')
    if has_left then
      redis.call('ZREMRANGEBYSCORE', 'shares:' .. list, '-inf', '(' .. exact(start))
    end
  end
end

-- Forget what waits on a list, if no other list of its queue has jobs.
local function is_emptied(queue, list)
  local others = {}
  for _, priority in ipairs(PRIORITIES) do
    local other = list_of(queue, priority)
    if other ~= list then
      others[#others + 1] = 'waiting:' .. other
    end
  end
  if redis.call('EXISTS', unpack(others)) > 0 then
    return false
  end
  redis.call('DEL', 'waiting:' .. list, 'turns:' .. list, 'shares:' .. list, 'queued:' .. queue)
  return true
end

-- Take back what a tenant was given for a job that is withdrawn before it was served. What it was given
-- for others stays: who withdraws all would else be first again, whatever it was served.
local function give_back(id, tenant, list)
  local work = redis.call('HGET', 'job:' .. id, 'work')
  if work then
    redis.call('ZADD', 'shares:' .. list, 'XX', 'INCR', exact(-tonumber(work)), tenant)
  end
end

-- Take a queued job from the indexes of its list; `start`: its turn, and `is_last`: whether it is
-- alone there, if that is known. That its message was missing is forgotten when it is queued again,
-- or looked for.
local function leave_queue(id, tenant, queue, list, is_served, start, is_last)
  if is_last and is_emptied(queue, list) or redis.call('ZREM', 'waiting:' .. list, id) == 0 then
    return
  end
  start = start or redis.call('ZSCORE', 'turns:' .. list, id)
  redis.call('ZREM', 'turns:' .. list, id)
  local has_left = redis.call('HINCRBY', 'queued:' .. queue, tenant, '-1') <= 0
  if has_left then
    redis.call('HDEL', 'queued:' .. queue, tenant)
  end
  if is_last == nil then
    is_last = redis.call('EXISTS', 'turns:' .. list) == 0
  end
  if is_last then
    redis.call('DEL', 'shares:' .. list)  -- a list without jobs forgets who was served how much
  elseif is_served and start then
    note_served(list, tonumber(start), has_left)
  elseif start and tonumber(start) >= 0 then
    give_back(id, tenant, list)
  end
end

-- Take a queued job from its list and indexes.
local function withdraw(id)
  local r = redis.call('HMGET', 'job:' .. id, 'queue', 'priority', 'message', 'publication', 'tenant')
  local list = list_of(r[1], r[2])
  leave_queue(id, r[5], r[1], list, false)
  redis.call('LREM', list, -1, message_of(r[3], id, r[4]))
end

-- Tell whether a job ends without having kept its SLO: too late, or without images. Who cancels
-- a job wants none.
local function is_violation(status, slo, since)
  if not slo or status == 'canceled' then
    return false
  end
  return status ~= 'succeeded' or now - tonumber(since) > tonumber(slo)
end

-- What is read of a job's record to end it.
local OF_END = {'status', 'task', 'level', 'slo', 'created_at', 'retried_at', 'worker', 'deadline_at',
  'finishes', 'followed', 'webhook_url', 'webhook_events', 'retries', 'tenant', 'images_asked', 'leaves',
  'bytes', 'day', 'device', 'gpu_ms', 'fence', 'finished_by', 'suspect'}

local function read_to_end(id)
  local r = {}
  for at, value in ipairs(redis.call('HMGET', 'job:' .. id, unpack(OF_END))) do
    r[OF_END[at]] = value or nil
  end
  return r
end

-- Count it under its task, status, level and whether it broke its promise: `storage/redis/stats.py`.
local function count_end(r, status)
  local is_late = is_violation(status, r.slo, r.retried_at or r.created_at)
  count(table.concat({'ended', r.task, status, status == 'succeeded' and r.level or '',
    is_late and 'late' or ''}, '\n'))
end

-- Take a running job from its worker.
local function end_lease(id, worker)
  redis.call('SREM', 'held:' .. worker, id)
  redis.call('ZREM', 'leases', id)
end

-- Move a job to a terminal status: indexes, counters, event and webhook in one step.
-- The caller has read it to end it (`r`), and taken it from its queue or its worker. `bytes`: of the
-- images that it leaves. More fields may follow.
local function close_as_read(id, r, status, bytes, ...)
  local key = 'job:' .. id
  close_account(id, r, status, bytes)
  if r.deadline_at then
    redis.call('ZREM', 'deadlines', id)
  end
  redis.call('ZADD', 'finished', stamp, id)
  redis.call('HSET', key, 'message', '', 'status', status, 'finished_at', stamp,
    'finishes', r.finishes + 1, 'bytes', tonumber(r.bytes or '0') + bytes, ...)
  if r.suspect then  -- what is bound to its last claim says nothing any more, and may stay
    redis.call('HDEL', key, 'suspect')
  end
  count_end(r, status)
  local data = '{"status":"' .. status .. '"}'
  emit(id, 'done', data, r.followed)
  if r.followed then
    redis.call('EXPIRE', 'events:' .. id, KEEP_EVENTS_S)
  end
  post(id, 'completed', id .. ':completed', data,
    {r.webhook_url, r.webhook_events, r.retries, r.tenant})
end

-- End a job that is queued or running; more fields may follow.
local function close(id, status, ...)
  local r = read_to_end(id)
  if r.status == 'queued' then
    withdraw(id)
  else
    end_lease(id, r.worker)
  end
  close_as_read(id, r, status, 0, ...)
end

-- Put a message of a job on its list, where it is popped next, under a fresh delivery tag.
local function ring(id, list, template)
  local publication = redis.call('HINCRBY', 'job:' .. id, 'publication', 1)
  redis.call('RPUSH', list, message_of(template, id, publication))
end

-- Put a job (back) on its list: where it still has a turn at that, with work where that is due, and
-- else at once. Its queue may have been forgotten meanwhile, as a worker's own is when it is empty.
local function requeue(id, reason, work)
  local key = 'job:' .. id
  local r = redis.call('HMGET', key, 'queue', 'priority', 'message', 'publication', 'created_at',
    'retried_at', 'status', 'worker', 'tenant')
  local list = list_of(r[1], r[2])
  if r[7] == 'running' then
    redis.call('SREM', 'held:' .. r[8], id)
  end
  local tag = id .. ':' .. r[4]
  redis.call('HDEL', 'unacked', tag)
  redis.call('ZREM', 'unacked_index', tag)
  redis.call('HSET', key, 'status', 'queued')
  redis.call('HDEL', key, 'lease_until', 'device', 'gpu_ms')
  redis.call('ZREM', 'leases', id)
  redis.call('ZREM', 'missing', id)
  redis.call('SADD', 'queues', r[1])
  if not redis.call('ZSCORE', 'turns:' .. list, id) then
    leave_queue(id, r[9], r[1], list, false)
    enter_queue(id, r[9], r[1], list, r[6] or r[5], work)
  end
  ring(id, list, r[3])
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

-- Number what a worker says: readers of the fleet ask for numbers after the last one they know.
-- A count that begins anew has another epoch.
local function number_change(worker)
  local number = redis.call('HINCRBY', 'fleet:number', 'last', 1)
  if number == 1 then
    redis.call('HSETNX', 'fleet:number', 'epoch', string.format('%.0f', now))
  end
  redis.call('ZADD', 'fleet:changes', number, worker)
  return number
end
