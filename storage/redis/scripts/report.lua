-- Take one worker's report, at this server's time; forget workers silent for an hour.
-- KEYS none. ARGV: 1 worker, 2 report
redis.call('HSET', 'fleet', ARGV[1], ARGV[2])
redis.call('ZADD', 'fleet:beats', now, ARGV[1])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', 'fleet:beats', '-inf', now - 3600000)) do
  redis.call('HDEL', 'fleet', name)
  redis.call('ZREM', 'fleet:beats', name)
end
return now
