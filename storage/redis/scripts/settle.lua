-- Say what became of one webhook delivery.
-- KEYS none. ARGV: 1 name, 2 `done`, `retry`, `dead` or `replay`, 3 outcome to count,
--   4 how long to wait before the next try (ms; `retry` only)
-- Returns 1; 0: there is no such delivery in that state.
local KEEP_DEAD_S = 7 * 86400
local name, wish, key = ARGV[1], ARGV[2], 'delivery:' .. ARGV[1]
local from = wish == 'replay' and 'outbox:dead' or 'outbox'
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
  redis.call('ZADD', 'outbox:dead', now, name)
  redis.call('ZREMRANGEBYSCORE', 'outbox:dead', '-inf', now - KEEP_DEAD_S * 1000)
  redis.call('EXPIRE', key, KEEP_DEAD_S)
elseif wish == 'replay' then
  redis.call('HSET', key, 'attempt', 0)
  redis.call('PERSIST', key)
  redis.call('ZADD', 'outbox', now, name)
end
count('webhooks:' .. ARGV[3])
return 1
