-- Bring jobs back from the archive, before they are tried again or deleted. Those that are to be
-- deleted go there no more: what the archive has of them may be deleted next. One that was deleted
-- since it was read there stays nowhere: `forget` has left a mark.
-- KEYS none. ARGV: 1 `delete`, or empty; then of each job: id, how many words its record has as
--   HGETALL (0: it is here, or nowhere), these words
-- Returns the ids of those that are nowhere.
local nowhere, at = {}, 2
while at <= #ARGV do
  local id, key, words = ARGV[at], 'job:' .. ARGV[at], tonumber(ARGV[at + 1])
  local is_here = redis.call('EXISTS', key) == 1
  if not is_here and words > 0 and redis.call('EXISTS', 'gone:' .. id) == 0 then
    redis.call('HSET', key, unpack(ARGV, at + 2, at + 1 + words))
    local r = redis.call('HMGET', key, 'tenant', 'created_at', 'finished_at', 'buried')
    redis.call('ZADD', 'finished', r[3], id)
    redis.call('ZADD', 'tenant:' .. r[1], r[2], id)
    if r[4] then
      redis.call('ZADD', 'buried:' .. r[1], r[2], id)
    end
  elseif not is_here then
    nowhere[#nowhere + 1] = id
  end
  if ARGV[1] == 'delete' and redis.call('HEXISTS', key, 'finished_at') == 1 then
    redis.call('HSET', key, 'deleting', 1)
  end
  at = at + 2 + words
end
return nowhere
