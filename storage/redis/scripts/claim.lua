-- Give the queued job whose turn it is to one worker, with a lease and the next fencing token.
-- KEYS none. ARGV: 1 id that the message names, 2 worker, 3 lease (ms), 4 token of this call, 5 most
--   attempts (0: any), 6 whether only this job will do (1), 7 type of its device, 8 the queue whose
--   bell rang, where bells stand for no job (or empty)
-- Returns the id, then the record as HGETALL does, with what the claim wrote after that: the last
--   value of a field counts. Empty: there is nothing to make, drop the message.
-- A call repeated after a lost answer (same token) gets the claim it already has.
local WANTED = ARGV[1]

local function read(id)
  local flat = redis.call('HGETALL', 'job:' .. id)
  local record = {flat = flat}
  for at = 1, #flat, 2 do
    record[flat[at]] = flat[at + 1]
  end
  return record
end

-- A message names one job and stands for its list: another tenant's may be served before it. That
-- one's message goes, and the one that was named is rung for again. Of one tenant's jobs that is
-- made whose message comes first, in the turn of the first. Tells that turn as well, and whether it
-- is the last one.
local function swap(id, record, list)
  local turns = 'turns:' .. list
  local first = redis.call('ZRANGE', turns, 0, 1, 'WITHSCORES')
  if not first[1] then
    return id, record
  end
  if ARGV[6] == '1' or first[1] == id then
    return id, record, first[1] == id and first[2] or nil, first[1] == id and not first[3]
  end
  local other = read(first[1])
  if other.status ~= 'queued' then
    redis.call('ZREM', turns, first[1])
    return swap(id, record, list)
  end
  if other.tenant == record.tenant then
    local own = redis.call('ZSCORE', turns, id)
    redis.call('ZADD', turns, first[2], id, own or first[2], first[1])
    return id, record, first[2], false
  end
  local turn = first[2]
  first = first[1]
  redis.call('LREM', list, -1, message_of(other.message, first, other.publication))
  ring(id, list, record.message)
  redis.call('HSET', 'job:' .. id, 'gave', ARGV[4] .. first)
  return first, other, turn, false
end

-- Find what this call has claimed already, under its own name or another, and still holds: what was
-- given may have been taken back and be another worker's by now.
local function claimed(id, record)
  if record.status == 'running' and record.token == ARGV[4] then
    return id, record
  end
  if record.gave and string.sub(record.gave, 1, #ARGV[4]) == ARGV[4] then
    local given = string.sub(record.gave, #ARGV[4] + 1)
    return claimed(given, read(given))
  end
end

-- End a job that is not to be made any more.
local function is_closed(id, record)
  local is_late, most = is_over(record.deadline_at), tonumber(ARGV[5])
  if not is_late and (most == 0 or tonumber(record.attempts) < most) then
    return false
  end
  -- rarely: close, bury_deadly
  if is_late then
    close(id, 'expired')
  else
    bury_deadly(id, record.attempts)
  end
  return true
end

local function write(id, record, fields)
  redis.call('HSET', 'job:' .. id, unpack(fields))
  if record.rings or record.gave then
    redis.call('HDEL', 'job:' .. id, 'rings', 'gave')
  end
  for at = 1, #fields do
    record.flat[#record.flat + 1] = fields[at]
  end
end

local function lease(id, record, list, start, is_last)
  local lease_until = string.format('%.0f', now + ARGV[3])
  local attempts = string.format('%d', record.attempts + 1)
  -- Unique even if a crash of this server lost a claim: two workers never write to one place.
  local fence = string.format('%.0f', math.max(tonumber(record.fence) + 1, now))
  write(id, record, {'attempts', attempts, 'fence', fence,
    'fences', record.fences and record.fences .. ',' .. fence or fence, 'status', 'running',
    'worker', ARGV[2], 'lease_until', lease_until, 'started_at', stamp,
    'token', ARGV[4], 'step', '0', 'device', ARGV[7] or ''})
  leave_queue(id, record.tenant, record.queue, list, true, start, is_last)
  redis.call('ZADD', 'leases', lease_until, id)
  redis.call('SADD', 'held:' .. ARGV[2], id)
  local data = running_of(attempts)
  emit(id, 'status', data, record.followed)
  post(id, 'started', id .. ':started:' .. attempts, data,
    {record.webhook_url, record.webhook_events, record.retries, record.tenant})
  return {id, record.flat}
end

-- A bell of another broker may come late, twice or not at all, so it stands for its queue: made is
-- whose turn it is there, of the first priority first.
local function next_of(queue)
  for _, priority in ipairs(PRIORITIES) do
    local list = list_of(queue, priority)
    local first = redis.call('ZRANGE', 'turns:' .. list, 0, 0)[1]
    while first and redis.call('HGET', 'job:' .. first, 'status') ~= 'queued' do
      redis.call('ZREM', 'turns:' .. list, first)
      first = redis.call('ZRANGE', 'turns:' .. list, 0, 0)[1]
    end
    if first then
      return first
    end
  end
end

local wanted = read(WANTED)
local id, record = claimed(WANTED, wanted)
if id then
  return {id, record.flat}
end
if (ARGV[8] or '') ~= '' and ARGV[6] ~= '1' then
  local first = next_of(ARGV[8])
  if not first then
    return {}
  end
  if wanted.status and first ~= WANTED then
    redis.call('HSET', 'job:' .. WANTED, 'gave', ARGV[4] .. first)
  end
  WANTED, wanted = first, read(first)
end
if wanted.status ~= 'queued' then
  return {}
end
local list = list_of(wanted.queue, wanted.priority)
local start, is_last
id, record, start, is_last = swap(WANTED, wanted, list)
if is_closed(id, record) then
  return {}
end
return lease(id, record, list, start, is_last)
