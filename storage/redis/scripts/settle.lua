-- Say what became of one webhook delivery.
-- KEYS none. ARGV: 1 name, 2 `done`, `retry`, `dead` or `replay`, 3 outcome to count,
--   4 how long to wait before the next try (ms; `retry` only),
--   5 how many that were given up are kept of one tenant (`dead` only)
-- Returns 1; 0: there is no such delivery in that state.
local MAX_DROPPED = 100  -- in one call: others wait meanwhile
local name, wish, key = ARGV[1], ARGV[2], 'delivery:' .. ARGV[1]
local from = wish == 'replay' and dead_index(name) or 'outbox'

-- Drop the oldest of what was given up: those beyond their time, or beyond how many are kept.
local function drop_oldest(index)
  local too_many = redis.call('ZCARD', index) - ARGV[5]
  local too_old = redis.call('ZCOUNT', index, '-inf', now - KEEP_DEAD_S * 1000)
  local dropped = math.min(math.max(too_many, too_old, 0), MAX_DROPPED)
  local popped = redis.call('ZPOPMIN', index, dropped)
  for at = 1, #popped, 2 do
    redis.call('DEL', 'delivery:' .. popped[at])
  end
end

-- An index ends by itself a week after its latest entry.
local function give_up()
  local index = dead_index(name)
  redis.call('EXPIRE', key, KEEP_DEAD_S)
  redis.call('ZADD', index, now, name)
  redis.call('EXPIRE', index, KEEP_DEAD_S)
  drop_oldest(index)
end

if not redis.call('ZSCORE', from, name) or redis.call('EXISTS', key) == 0 then
  redis.call('ZREM', from, name)
  return 0
end
if wish == 'retry' or wish == 'dead' then
  redis.call('HINCRBY', key, 'attempt', 1)
end
if wish == 'retry' then
  redis.call('ZADD', 'outbox', string.format('%.0f', now + ARGV[4]), name)
else
  redis.call('ZREM', from, name)
end
if wish == 'done' then
  redis.call('DEL', key)
elseif wish == 'dead' then
  give_up()
elseif wish == 'replay' then
  redis.call('HSET', key, 'attempt', 0)
  redis.call('PERSIST', key)
  redis.call('ZADD', 'outbox', now, name)
end
count('webhooks:' .. ARGV[3])
return 1
