-- Give one queued job to one worker, with a lease and the next fencing token.
-- KEYS none. ARGV: 1 id, 2 worker, 3 lease (ms), 4 token of this call, 5 most attempts (0: any)
-- Returns the record as HGETALL does; empty: there is nothing to make, drop the message.
-- A call repeated after a lost answer (same token) gets the claim it already has.
local id, key = ARGV[1], 'job:' .. ARGV[1]
local r = redis.call('HMGET', key, 'status', 'token', 'deadline_at', 'attempts', 'queue',
  'priority', 'fence', 'fences')
if r[1] == 'running' and r[2] == ARGV[4] then
  return redis.call('HGETALL', key)
end
if r[1] ~= 'queued' then
  return {}
end
if is_over(r[3]) then
  close(id, 'expired')
  return {}
end
if tonumber(ARGV[5]) > 0 and tonumber(r[4]) >= tonumber(ARGV[5]) then
  bury_deadly(id, r[4])
  return {}
end
local lease_until = now + ARGV[3]
local attempts = redis.call('HINCRBY', key, 'attempts', 1)
-- Unique even if a crash of this server lost a claim: two workers never write to one place.
local fence = string.format('%.0f', math.max(tonumber(r[7]) + 1, now))
local fences = r[8] and r[8] .. ',' .. fence or fence
redis.call('HSET', key, 'fence', fence, 'fences', fences, 'status', 'running',
  'worker', ARGV[2], 'lease_until', lease_until, 'started_at', now, 'token', ARGV[4], 'step', 0)
redis.call('HDEL', key, 'rings')
redis.call('ZREM', 'waiting:' .. list_of(r[5], r[6]), id)
redis.call('ZREM', 'missing', id)
redis.call('ZADD', 'leases', lease_until, id)
redis.call('SADD', 'held:' .. ARGV[2], id)
count('started')
local data = '{"status":"running","attempts":' .. attempts .. '}'
emit(id, 'status', data)
post(id, 'started', id .. ':started:' .. attempts, data)
return redis.call('HGETALL', key)
