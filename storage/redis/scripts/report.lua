-- Take one worker's report, or its word that the last one still holds, at this server's time; number
-- it if it says anything new; as another worker comes, forget those silent for an hour.
-- KEYS none. ARGV: 1 worker, 2 number of its last report (0: none), 3 report (empty: that one holds)
-- Returns the number of its report; 0: this server does not know it, so it is to be said in full.
local name, said, document = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local number
if document ~= '' then
  redis.call('HSET', 'fleet', name, document)
  number = number_change(name)
else
  number = tonumber(redis.call('ZSCORE', 'fleet:changes', name) or '0')
  if number == 0 or number ~= said then
    return 0
  end
  local beat = tonumber(redis.call('ZSCORE', 'fleet:beats', name) or '0')
  if now - beat > 2000 then  -- readers may have given it up
    number = number_change(name)
  end
end
if redis.call('ZADD', 'fleet:beats', now, name) == 1 then
  for _, silent in ipairs(redis.call('ZRANGEBYSCORE', 'fleet:beats', '-inf', now - 3600000)) do
    redis.call('HDEL', 'fleet', silent)
    redis.call('ZREM', 'fleet:beats', silent)
    redis.call('ZREM', 'fleet:changes', silent)
  end
end
return number
