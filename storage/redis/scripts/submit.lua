-- Accept jobs: record, indexes and queue message of each, wholly or not at all.
-- KEYS none. ARGV: 1 jobs that may wait on one queue; then 16 values a job:
--   id, tenant, request, placement, queue, priority, message, deadline (ms from now or empty),
--   idempotency key (or empty), digest, task, level, webhook url (or empty), webhook events,
--   slo (ms or empty), work (by which tenants are served alike)
-- Returns for each job: {1, id, jobs served before it} accepted, {0, id} accepted earlier under
--   this key, {2, id} key used for another request, {3, ms} queue full, try again after so long
local WIDTH = 16
local KEEP_KEY_S = 86400
local PRIORITIES = {'0', '3', '6', '9'}
local max_queue = tonumber(ARGV[1])
local waiting = {}

local function waiting_on(queue)
  if not waiting[queue] then
    local n = 0
    for _, priority in ipairs(PRIORITIES) do
      n = n + redis.call('ZCARD', 'waiting:' .. list_of(queue, priority))
    end
    waiting[queue] = n
    redis.call('SADD', 'queues', queue)
  end
  return waiting[queue]
end

local function served_before(id, queue, priority)
  local n = 0
  for _, each in ipairs(PRIORITIES) do
    local turns = 'turns:' .. list_of(queue, each)
    if each == priority then
      return n + (redis.call('ZRANK', turns, id) or 0)
    end
    n = n + redis.call('ZCARD', turns)
  end
end

-- A queue that one tenant has filled is not full for those who have less than their share of it.
local function is_below_share(queue, tenant)
  local tenants, own = 'queued:' .. queue, redis.call('HGET', 'queued:' .. queue, tenant)
  local others = redis.call('HLEN', tenants) - (own and 1 or 0)
  return tonumber(own or 0) < max_queue / (others + 1)
end

-- By Little's law the first job's wait is the time a full queue takes; ask again after a tenth.
local function retry_after(queue, priority)
  local first = redis.call('ZRANGE', 'waiting:' .. list_of(queue, priority), 0, 0, 'WITHSCORES')
  local wait = first[2] and (now - tonumber(first[2])) / 10 or 0
  return math.floor(math.max(1000, math.min(60000, wait)))
end

local function earlier(key, digest)
  local kept = redis.call('GET', key)
  if not kept then
    return nil
  end
  local cut = string.find(kept, '\n', 1, true)
  local id = string.sub(kept, cut + 1)
  if redis.call('EXISTS', 'job:' .. id) == 0 then
    return nil
  end
  return {string.sub(kept, 1, cut - 1) == digest and 0 or 2, id}
end

local function submit(at)
  local id, tenant, queue, priority = ARGV[at], ARGV[at + 1], ARGV[at + 4], ARGV[at + 5]
  local key, message, deadline, idem = 'job:' .. id, ARGV[at + 6], ARGV[at + 7], ARGV[at + 8]
  if redis.call('EXISTS', key) == 1 then
    return {1, id, served_before(id, queue, priority)}
  end
  local idem_key = 'idem:' .. #tenant .. ':' .. tenant .. ':' .. idem
  if idem ~= '' then
    local answer = earlier(idem_key, ARGV[at + 9])
    if answer then
      return answer
    end
  end
  if waiting_on(queue) >= max_queue and not is_below_share(queue, tenant) then
    count('refused')
    return {3, retry_after(queue, priority)}
  end
  waiting[queue] = waiting[queue] + 1
  local list = list_of(queue, priority)
  redis.call('HSET', key, 'tenant', tenant, 'request', ARGV[at + 2], 'placement', ARGV[at + 3],
    'queue', queue, 'priority', priority, 'message', message, 'task', ARGV[at + 10],
    'level', ARGV[at + 11], 'status', 'queued', 'created_at', now, 'attempts', 0, 'fence', 0,
    'publication', 1, 'finishes', 0, 'work', ARGV[at + 15])
  if deadline ~= '' then
    redis.call('HSET', key, 'deadline_at', now + deadline)
    redis.call('ZADD', 'deadlines', now + deadline, id)
  end
  if ARGV[at + 12] ~= '' then
    redis.call('HSET', key, 'webhook_url', ARGV[at + 12], 'webhook_events', ARGV[at + 13])
  end
  if ARGV[at + 14] ~= '' then
    redis.call('HSET', key, 'slo', ARGV[at + 14])
  end
  if idem ~= '' then
    redis.call('SET', idem_key, ARGV[at + 9] .. '\n' .. id, 'EX', KEEP_KEY_S)
  end
  redis.call('ZADD', 'tenant:' .. tenant, now, id)
  enter_queue(id, tenant, queue, list, now, tonumber(ARGV[at + 15]))
  redis.call('LPUSH', list, message_of(message, id, '1'))
  count('submitted')
  return {1, id, served_before(id, queue, priority)}
end

local answers = {}
for at = 2, #ARGV, WIDTH do
  answers[#answers + 1] = submit(at)
end
return answers
