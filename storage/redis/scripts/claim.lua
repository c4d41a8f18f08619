-- Give the queued job whose turn it is to one worker, with a lease and the next fencing token.
-- KEYS none. ARGV: 1 id that the message names, 2 worker, 3 lease (ms), 4 token of this call, 5 most
--   attempts (0: any), 6 whether only this job will do (1), 7 type of its device
-- Returns the id, then the record as HGETALL does; empty: there is nothing to make, drop the message.
-- A call repeated after a lost answer (same token) gets the claim it already has.
local WANTED = ARGV[1]

local function answer(id)
  return {id, redis.call('HGETALL', 'job:' .. id)}
end

-- A message names one job and stands for its list: another tenant's may be served before it. That
-- one's message goes, and the one that was named is rung for again. Of one tenant's jobs that is
-- made whose message comes first, in the turn of the first.
local function swap(id, tenant, list)
  local turns = 'turns:' .. list
  local first = redis.call('ZRANGE', turns, 0, 0, 'WITHSCORES')
  if ARGV[6] == '1' or not first[1] or first[1] == id then
    return id
  end
  local r = redis.call('HMGET', 'job:' .. first[1], 'status', 'message', 'publication', 'tenant')
  if r[1] ~= 'queued' then
    redis.call('ZREM', turns, first[1])
    return swap(id, tenant, list)
  end
  if r[4] == tenant then
    local own = redis.call('ZSCORE', turns, id)
    redis.call('ZADD', turns, first[2], id, own or first[2], first[1])
    return id
  end
  first = first[1]
  redis.call('LREM', list, -1, message_of(r[2], first, r[3]))
  ring(id, list, redis.call('HGET', 'job:' .. id, 'message'))
  redis.call('HSET', 'job:' .. id, 'gave', ARGV[4] .. first)
  return first
end

-- Find what this call has claimed already, under its own name or another.
local function claimed()
  local r = redis.call('HMGET', 'job:' .. WANTED, 'gave', 'status', 'token')
  if r[2] == 'running' and r[3] == ARGV[4] then
    return WANTED
  end
  if r[1] and string.sub(r[1], 1, #ARGV[4]) == ARGV[4] then
    return string.sub(r[1], #ARGV[4] + 1)
  end
end

-- End a job that is not to be made any more.
local function is_closed(id, deadline_at, attempts)
  if is_over(deadline_at) then
    close(id, 'expired', 0)
    return true
  end
  if tonumber(ARGV[5]) > 0 and tonumber(attempts) >= tonumber(ARGV[5]) then
    bury_deadly(id, attempts)
    return true
  end
end

local function lease(id, queue, list, tenant, last, fences)
  local key, lease_until = 'job:' .. id, now + ARGV[3]
  local attempts = redis.call('HINCRBY', key, 'attempts', 1)
  -- Unique even if a crash of this server lost a claim: two workers never write to one place.
  local fence = string.format('%.0f', math.max(tonumber(last) + 1, now))
  redis.call('HSET', key, 'fence', fence, 'fences', fences and fences .. ',' .. fence or fence,
    'status', 'running', 'worker', ARGV[2], 'lease_until', lease_until, 'started_at', now,
    'token', ARGV[4], 'step', 0, 'device', ARGV[7] or '')
  redis.call('HDEL', key, 'rings', 'gave')
  leave_queue(id, tenant, queue, list, true)
  redis.call('ZADD', 'leases', lease_until, id)
  redis.call('SADD', 'held:' .. ARGV[2], id)
  count('started')
  local data = '{"status":"running","attempts":' .. attempts .. '}'
  emit(id, 'status', data)
  post(id, 'started', id .. ':started:' .. attempts, data)
  return answer(id)
end

local before = claimed()
if before then
  return answer(before)
end
local named = redis.call('HMGET', 'job:' .. WANTED, 'status', 'queue', 'priority', 'tenant')
if named[1] ~= 'queued' then
  return {}
end
local list = list_of(named[2], named[3])
local id = swap(WANTED, named[4], list)
local r = redis.call('HMGET', 'job:' .. id, 'deadline_at', 'attempts', 'tenant', 'fence', 'fences')
if is_closed(id, r[1], r[2]) then
  return {}
end
return lease(id, named[2], list, r[3], r[4], r[5])
