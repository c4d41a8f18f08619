-- Drop the records of jobs that are in the archive now, unless something has happened to them since
-- they were taken, or somebody else has taken them.
-- KEYS none. ARGV: 1 token of the caller, then id and end (ms) of each, as its record had them
-- Returns how many were dropped; ids of those that were deleted meanwhile: what was written of them
--   must go, and then their ids from `archiving`.
local token, dropped, gone = ARGV[1], 0, {}
for at = 2, #ARGV, 2 do
  local id, key = ARGV[at], 'job:' .. ARGV[at]
  if redis.call('HGET', 'archiving', id) == token then
    local r = redis.call('HMGET', key, 'tenant', 'finished_at', 'deleting')
    if not r[1] then
      gone[#gone + 1] = id
    else
      redis.call('HDEL', 'archiving', id)
      if r[2] == ARGV[at + 1] and not r[3] then
        redis.call('ZREM', 'finished', id)
        redis.call('ZREM', 'tenant:' .. r[1], id)
        redis.call('ZREM', 'buried:' .. r[1], id)
        redis.call('DEL', key, 'events:' .. id, 'preview:' .. id)
        dropped = dropped + 1
      end
    end
  end
end
if dropped > 0 then
  redis.call('HINCRBY', 'stats', 'archived', dropped)
end
return {dropped, gone}
