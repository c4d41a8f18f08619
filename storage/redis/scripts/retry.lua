-- Dig up a buried job: back on its list, popped next, made alone, with all its attempts.
-- KEYS none. ARGV: 1 id, 2 tenant (empty: any), 3 message
-- Returns the code, then the record as HGETALL does; 1: it is queued again, or was by an earlier
-- call and has not ended since; 0: it is not buried; -1: its deadline has passed; alone and
-- empty: no such job of this tenant.
local id, key = ARGV[1], 'job:' .. ARGV[1]
local r = redis.call('HMGET', key, 'status', 'tenant', 'buried', 'retries', 'deadline_at')
if not r[1] or (ARGV[2] ~= '' and r[2] ~= ARGV[2]) then
  return {}
end
if not r[3] then
  local is_again = r[4] and (r[1] == 'queued' or r[1] == 'running')
  return {is_again and 1 or 0, redis.call('HGETALL', key)}
end
if is_over(r[5]) then
  return {-1, redis.call('HGETALL', key)}
end
-- What nobody has taken yet of its end is not said any more: it has not ended.
local told = of_life(id .. ':completed', r[4])
take_out(told, r[2])
redis.call('ZREM', 'outbox:dead:' .. r[2], told)
redis.call('DEL', 'delivery:' .. told)
redis.call('ZREM', 'buried:' .. r[2], id)
redis.call('ZREM', 'finished', id)
if r[5] then
  redis.call('ZADD', 'deadlines', r[5], id)
end
reopen_account(id)
redis.call('HINCRBY', key, 'retries', 1)
redis.call('HSET', key, 'message', ARGV[3], 'attempts', 0, 'finishes', 0, 'retried_at', now,
  'suspect', 1)
redis.call('HDEL', key, 'buried', 'failure', 'finished_at', 'started_at', 'rings', 'step', 'images',
  'timing', 'device', 'gpu_ms', 'deleting')
requeue(id, 'retried')
redis.call('HSET', key, 'history', string.format('%.0f:', now))
-- Emptied, not deleted: whoever has read of its end reads on from there.
redis.call('XTRIM', 'events:' .. id, 'MAXLEN', 0)
if redis.call('PERSIST', 'events:' .. id) == 1 then
  emit(id, 'status', '{"status":"queued"}', true)
else
  redis.call('HDEL', key, 'followed', 'previewed')
end
return {1, redis.call('HGETALL', key)}
