-- Take jobs from workers whose lease ran out: back on the queue, or buried after too many tries.
-- KEYS none. ARGV: 1 most attempts, 2 jobs to look at
-- Returns {ids put back, ids ended}.
-- An attempt counts against the job that its worker made alone, or that was all it had. If there
-- were several, each may have killed it: none is charged, and each is made alone from now on.
local back, ended = {}, {}

-- Find what else a worker holds, and which of all it makes alone.
local function look_round(id, worker, culprit)
  local others = {}
  for _, other in ipairs(redis.call('SMEMBERS', 'held:' .. worker)) do
    if other ~= id then
      local r = redis.call('HMGET', 'job:' .. other, 'fence', 'alone')
      others[other] = r[1] or nil
      culprit = r[1] and r[1] == r[2] and other or culprit
    end
  end
  return others, culprit
end

-- Say whether a lost worker is this job's `own` doing, may be (`shared`), or is not (`spared`);
-- the others that it held are told now, for their leases may run out later.
local function judge(id, worker, fence, alone, verdict)
  local is_alone = alone == fence
  local told, kind = string.match(verdict or '', '^(%d+) (%a+)$')
  if told == fence and not is_alone then
    return kind
  end
  local others, culprit = look_round(id, worker, is_alone and id or nil)
  local theirs = culprit and 'spared' or 'shared'
  for other, its_fence in pairs(others) do
    redis.call('HSET', 'job:' .. other, 'verdict', its_fence .. ' ' .. theirs)
  end
  if is_alone or next(others) == nil then
    return 'own'
  end
  return theirs
end

local function put_back(id, kind, told)
  if kind ~= 'own' then
    redis.call('HINCRBY', 'job:' .. id, 'attempts', -1)
  end
  if kind ~= 'spared' then
    redis.call('HSET', 'job:' .. id, 'suspect', 1)
  end
  requeue(id, 'reaped')
  tell_back(id, told)
  back[#back + 1] = id
end

local function take(id, attempts, deadline_at, kind, told)
  if is_over(deadline_at) then
    close(id, 'expired')
  elseif kind == 'own' and tonumber(attempts) >= tonumber(ARGV[1]) then
    bury_deadly(id, attempts)
  else
    return put_back(id, kind, told)
  end
  ended[#ended + 1] = id
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', 'leases', '-inf', now, 'LIMIT', 0, ARGV[2])) do
  local r = redis.call('HMGET', 'job:' .. id, 'status', 'attempts', 'deadline_at', 'worker',
    'fence', 'alone', 'verdict', 'history', 'followed')
  if r[1] ~= 'running' then
    redis.call('ZREM', 'leases', id)
  else
    stop(id)
    take(id, r[2], r[3], judge(id, r[4], r[5], r[6], r[7]), {r[5], r[2], r[8], r[9]})
  end
end
return {back, ended}
