-- Forget a worker that ends; for an hour readers still find that it is gone.
-- KEYS none. ARGV: 1 worker
redis.call('HDEL', 'fleet', ARGV[1])
redis.call('ZADD', 'fleet:beats', now, ARGV[1])
number_change(ARGV[1])
return now
