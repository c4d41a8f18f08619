-- Say what became of one webhook delivery.
-- KEYS none. ARGV: 1 name, 2 `done`, `retry`, `dead` or `replay`, 3 outcome to count,
--   4 how long to wait before the next try (ms; `retry` only),
--   5 how many that were given up are kept of one tenant (`dead` only),
--   6 number of the attempt that was made (`retry` only)
-- Returns 1, also to a repeated `retry`; 0: there is no such delivery in that state.
local name, wish, key = ARGV[1], ARGV[2], 'delivery:' .. ARGV[1]
local from = wish == 'replay' and dead_index(name) or 'outbox'
local r = redis.call('HMGET', key, 'tenant', 'attempt')
if not redis.call('ZSCORE', from, name) or not r[2] then
  redis.call('ZREM', from, name)
  return 0
end
if wish == 'retry' and tonumber(r[2]) >= tonumber(ARGV[6]) then
  return 1
end
if wish == 'retry' or wish == 'dead' then
  redis.call('HINCRBY', key, 'attempt', 1)
end
if wish == 'retry' then
  redis.call('ZADD', 'outbox', string.format('%.0f', now + ARGV[4]), name)
elseif wish == 'replay' then
  redis.call('ZREM', from, name)
else
  take_out(name, r[1])
end
if wish == 'done' then
  redis.call('DEL', key)
elseif wish == 'dead' then
  keep_dead(name, ARGV[5])
elseif wish == 'replay' then
  redis.call('HSET', key, 'attempt', 0)
  redis.call('PERSIST', key)
  redis.call('ZADD', 'outbox', now, name)
  if r[1] then
    enter_pending(name, r[1])
  end
end
count('webhooks:' .. ARGV[3])
return 1
