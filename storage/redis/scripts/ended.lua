-- Take a page of jobs that ended a while ago, the oldest first, to write them to the archive. They
-- stay until `archived`, which only the last who took a job may call for it.
-- KEYS none. ARGV: 1 token of the caller, 2 for how long a job has ended (ms), 3 jobs to look at, 4 to
--   pass over
-- Returns how many were looked at; those taken: id, record as HGETALL, each; ids of jobs that were
--   taken before, and deleted since: what was written of them must go.
local token, gone, taken, tokens = ARGV[1], {}, {}, {}
for _, id in ipairs(redis.call('HKEYS', 'archiving')) do
  if redis.call('EXISTS', 'job:' .. id) == 0 then
    gone[#gone + 1] = id
  else
    redis.call('HDEL', 'archiving', id)
  end
end

local function is_deleting(record)
  for at = 1, #record, 2 do
    if record[at] == 'deleting' then
      return true
    end
  end
  return false
end

local ids = redis.call('ZRANGEBYSCORE', 'finished', '-inf', now - ARGV[2], 'LIMIT', ARGV[4], ARGV[3])
for _, id in ipairs(ids) do
  local record = redis.call('HGETALL', 'job:' .. id)
  if #record == 0 then
    redis.call('ZREM', 'finished', id)
  elseif not is_deleting(record) then
    tokens[#tokens + 1], tokens[#tokens + 2] = id, token
    taken[#taken + 1] = {id, record}
  end
end
if #taken > 0 then
  redis.call('HSET', 'archiving', unpack(tokens))
end
return {#ids, taken, gone}
