-- Accept jobs: record, indexes and queue message of each, wholly or not at all.
-- KEYS none. ARGV: 1 jobs that may wait on one queue; then 22 values a job:
--   id, tenant, request, placement, queue, priority, message, deadline (ms from now or empty),
--   idempotency key (or empty), digest, task, level, webhook url (or empty), webhook events,
--   slo (ms or empty), work (by which tenants are served alike), images, bytes it brings, bytes it
--   may leave, limits of its tenant (empty: none): ms from one job to the next (0: any), jobs at
--   once, jobs open, images a day, bytes kept, ms for which its jobs are kept;
--   schema of the record, span that traces it (or empty)
-- Returns for each job a code, and
--   1: id, jobs served before it: accepted; 0: id: accepted earlier under this key; 2: id: key used
--   for another request; 3: ms: queue full, try again after so long; 4: ms, which limit is reached.
--   After 1 and 4, if the tenant has limits: ms until all jobs at once may come again, how many may
--   now, jobs open, images of the day, ms that are left of it
local WIDTH = 22
local KEEP_KEY_S = 86400
local max_queue = tonumber(ARGV[1])
local waiting = {}

-- Tell whether there is such a job; count what waits on its queue: most often nothing, or one list.
local function exists(key, queue)
  if waiting[queue] then
    return redis.call('EXISTS', key) == 1
  end
  local lists = {}
  for _, priority in ipairs(PRIORITIES) do
    lists[#lists + 1] = 'waiting:' .. list_of(queue, priority)
  end
  waiting[queue] = 0
  local found = redis.call('EXISTS', key, unpack(lists))
  for at = 1, #lists do
    if found == 0 then
      return false
    end
    local n = redis.call('ZCARD', lists[at])
    waiting[queue] = waiting[queue] + n
    found = found - math.min(n, 1)
  end
  return found > 0
end

-- Count a job; the first one of a queue names it in `queues`. A worker's own queue is forgotten with
-- its last job, so that each names it.
local function count_submitted(queue)
  local is_own = string.find(queue, '@', 1, true)
  local n = redis.call('HINCRBY', 'stats', is_own and 'submitted' or 'submitted\n' .. queue, '1')
  if is_own or n == 1 then
    redis.call('SADD', 'queues', queue)
  end
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

-- Where a tenant stands.
local function account_of(tenant)
  local r = redis.call('HMGET', 'account:' .. tenant, 'full_at', 'told', 'bytes', 'promised', 'took', 'told_open')
  for i = 1, 6 do
    r[i] = tonumber(r[i] or '0')
  end
  return {full_at = math.max(r[1], now), told = r[2], bytes = r[3] + r[4], took = r[5], told_open = r[6],
    open = redis.call('SCARD', 'open:' .. tenant),
    images = tonumber(redis.call('HGET', 'usage:' .. tenant .. ':' .. day_of(now), 'asked') or '0')}
end

local function read_limits(packed)
  local each, most, open, images, bytes, retention = string.match(packed, string.rep('(%S+) ', 5) .. '(%S+)')
  return {each = tonumber(each), most = tonumber(most), open = tonumber(open), images = tonumber(images),
    bytes = tonumber(bytes), retention = tonumber(retention)}
end

local function standing(own, limits)
  local free = limits.most
  if limits.each > 0 then
    free = math.floor((now + limits.most * limits.each - own.full_at) / limits.each + 1e-6)
  end
  return math.ceil(own.full_at - now), math.max(0, free), own.open, own.images, DAY_MS - now % DAY_MS
end

-- Whoever is refused is told a moment of its own, `pause` after the last one's, so that all who come
-- back when they were told are accepted.
local function told_after(account, field, earliest, last, pause)
  local moment = math.max(earliest, math.min(last + pause, now + 60000))
  redis.call('HSET', account, field, exact(moment))
  return math.ceil(moment - now)
end

-- Bytes are given back when jobs are deleted, at the latest by upkeep: find when that will be enough.
local function freed_after(tenant, needed, retention)
  local moment = now
  for _, id in ipairs(redis.call('ZRANGE', 'tenant:' .. tenant, 0, 19)) do
    local r = redis.call('HMGET', 'job:' .. id, 'finished_at', 'bytes')
    if needed <= 0 then
      break
    end
    if r[1] then
      needed = needed - tonumber(r[2] or '0')
      moment = math.max(moment, tonumber(r[1]) + retention)
    end
  end
  return math.max(moment - now, 0) + 60000
end

local function over_limit(tenant, own, limits, images, bytes)
  local account = 'account:' .. tenant
  if own.open + 1 > limits.open then
    local pause = math.max(own.took, 1000) / limits.open
    return {told_after(account, 'told_open', now + pause, own.told_open, pause), 'open_jobs'}
  end
  if own.images + images > limits.images then
    return {DAY_MS - now % DAY_MS, 'images_a_day'}
  end
  if own.bytes + bytes > limits.bytes then
    return {freed_after(tenant, own.bytes + bytes - limits.bytes, limits.retention), 'kept_bytes'}
  end
  local free_at = own.full_at - (limits.most - 1) * limits.each
  if free_at > now then
    -- Clients come up to a second late: so many at once that all of them fit.
    local pause = math.max(limits.each, limits.most > 1 and 1000 / (limits.most - 1) or limits.each + 1000)
    return {told_after(account, 'told', free_at, own.told, pause), 'jobs_per_s'}
  end
end

local function submit(at)
  local id, tenant, queue, priority = ARGV[at], ARGV[at + 1], ARGV[at + 4], ARGV[at + 5]
  local key, message, deadline, idem = 'job:' .. id, ARGV[at + 6], ARGV[at + 7], ARGV[at + 8]
  if exists(key, queue) then
    return {1, id, served_before(id, queue, priority)}
  end
  local idem_key = 'idem:' .. #tenant .. ':' .. tenant .. ':' .. idem
  if idem ~= '' then
    local answer = earlier(idem_key, ARGV[at + 9])
    if answer then
      return answer
    end
  end
  if waiting[queue] >= max_queue and not is_below_share(queue, tenant) then
    count('refused')
    return {3, retry_after(queue, priority)}
  end
  local images, brings, leaves = tonumber(ARGV[at + 16]), tonumber(ARGV[at + 17]), tonumber(ARGV[at + 18])
  local own, limits
  if ARGV[at + 19] ~= '' then
    own, limits = account_of(tenant), read_limits(ARGV[at + 19])
    local over = over_limit(tenant, own, limits, images, brings + leaves)
    if over then
      count('refused')
      return {4, over[1], over[2], standing(own, limits)}
    end
    own.full_at, own.open, own.images = own.full_at + limits.each, own.open + 1, own.images + images
    redis.call('HSET', 'account:' .. tenant, 'full_at', exact(own.full_at))
  end
  local is_first = waiting[queue] == 0
  waiting[queue] = waiting[queue] + 1
  local list = list_of(queue, priority)
  local fields = {'tenant', tenant, 'queue', queue, 'priority', priority, 'task', ARGV[at + 10],
    'level', ARGV[at + 11], 'status', 'queued', 'created_at', stamp, 'attempts', '0', 'fence', '0',
    'publication', '1', 'finishes', '0', 'work', ARGV[at + 15], 'images_asked', ARGV[at + 16],
    'bytes', ARGV[at + 17], 'leaves', ARGV[at + 18], 'day', day_of(now), 'schema', ARGV[at + 20]}
  local function add(name, value)
    if value ~= '' then
      fields[#fields + 1], fields[#fields + 2] = name, value
    end
  end
  add('deadline_at', deadline ~= '' and now + deadline or '')
  add('webhook_url', ARGV[at + 12])
  add('webhook_events', ARGV[at + 13])
  add('slo', ARGV[at + 14])
  add('trace', ARGV[at + 21])
  add('placement', ARGV[at + 3])  -- what is long comes last: it is not moved for each field
  add('message', message)
  add('request', ARGV[at + 2])
  redis.call('HSET', key, unpack(fields))
  open_account(id, tenant, images, leaves)
  book(tenant, 'bytes', brings)
  if deadline ~= '' then
    redis.call('ZADD', 'deadlines', now + deadline, id)
  end
  if idem ~= '' then
    redis.call('SET', idem_key, ARGV[at + 9] .. '\n' .. id, 'EX', KEEP_KEY_S)
  end
  redis.call('ZADD', 'tenant:' .. tenant, stamp, id)
  enter_queue(id, tenant, queue, list, stamp, tonumber(ARGV[at + 15]), is_first)
  redis.call('LPUSH', list, message_of(message, id, '1'))
  count_submitted(queue)
  local before = is_first and 0 or served_before(id, queue, priority)
  if limits then
    return {1, id, before, standing(own, limits)}
  end
  return {1, id, before}
end

local answers = {}
for at = 2, #ARGV, WIDTH do
  answers[#answers + 1] = submit(at)
end
return answers
