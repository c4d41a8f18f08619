-- Hand out webhook deliveries; one not settled in time is handed out again. Of a tenant that has too
-- many to be made the oldest are given up: a receiver that hangs would fill this server.
-- KEYS none. ARGV: 1 epoch (ms; 0: now), 2 how many, 3 time to settle one (ms),
--   4 how many may wait of one tenant, 5 how many that were given up are kept of one
-- Returns for each: name, job, url, event, attempt, body, tenant (false: an older version posted it),
-- epoch at which it is handed out again (ms).
local at = tonumber(ARGV[1])
if at == 0 then
  at = now
end
local due, seen, given_up, room = {}, {}, {}, MAX_DROPPED

-- Only the end of a job is worth being kept: the rest is out of date.
local function give_up(name, tenant)
  given_up[name] = true
  take_out(name, tenant)
  if redis.call('HGET', 'delivery:' .. name, 'event') == 'completed' then
    keep_dead(name, ARGV[5])
    count('webhooks:dead')
  else
    redis.call('DEL', 'delivery:' .. name)
    count('webhooks:dropped')
  end
end

local function give_up_oldest(tenant)
  local pending = 'pending:' .. tenant
  local many = math.min(math.max(redis.call('ZCARD', pending) - ARGV[4], 0), room)
  seen[tenant], room = true, room - many
  local oldest = redis.call('ZRANGE', pending, 0, many)
  for at = 1, many do
    give_up(oldest[at], tenant)
  end
  local first = oldest[many + 1]  -- an older version settles and leaves this index as it is
  if first and redis.call('EXISTS', 'delivery:' .. first) == 0 then
    redis.call('ZREM', pending, first)
  end
end

local function hand_out(name)
  local r = redis.call('HMGET', 'delivery:' .. name, 'job', 'url', 'event', 'body', 'attempt', 'tenant')
  if not r[1] then
    redis.call('ZREM', 'outbox', name)
    return
  end
  if r[6] and not seen[r[6]] then
    give_up_oldest(r[6])
  end
  if not given_up[name] then
    local again = string.format('%.0f', at + ARGV[3])
    redis.call('ZADD', 'outbox', again, name)
    due[#due + 1] = {name, r[1], r[2], r[3], r[5] + 1, r[4], r[6], again}
  end
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', 'outbox', '-inf', at, 'LIMIT', 0, ARGV[2])) do
  if not given_up[name] then
    hand_out(name)
  end
end
return due
