-- Drop the records of jobs that are in the archive now, unless something has happened to them since
-- they were taken, or somebody else has taken them.
-- KEYS none. ARGV: 1 token of the caller, 2 how many jobs; then the id of each, then the end (ms) of
--   each, as its record had it
-- Returns how many were dropped; ids of those that were deleted meanwhile: what was written of them
--   must go, and then their ids from `archiving`.
local token, jobs = ARGV[1], tonumber(ARGV[2])
local dropped, stays, gone = {}, {}, {}
if jobs == 0 then
  return {0, gone}
end

-- Tell whether a job is as it was when it was taken; drop it then.
local function drop(id, ended_at)
  local key = 'job:' .. id
  local r = redis.call('HMGET', key, 'tenant', 'finished_at', 'deleting', 'buried')
  if not r[1] then
    gone[#gone + 1] = id
  elseif r[2] == ended_at and not r[3] then
    redis.call('ZREM', 'tenant:' .. r[1], id)
    if r[4] then
      redis.call('ZREM', 'buried:' .. r[1], id)
    end
    redis.call('DEL', key, 'events:' .. id, 'preview:' .. id)
    dropped[#dropped + 1] = id
  else
    stays[#stays + 1] = id
  end
end

for at, taken_by in ipairs(redis.call('HMGET', 'archiving', unpack(ARGV, 3, 2 + jobs))) do
  if taken_by == token then
    drop(ARGV[2 + at], ARGV[2 + jobs + at])
  end
end
if #dropped > 0 then
  redis.call('ZREM', 'finished', unpack(dropped))
  redis.call('HDEL', 'archiving', unpack(dropped))
  redis.call('HINCRBY', 'stats', 'archived', #dropped)
end
if #stays > 0 then
  redis.call('HDEL', 'archiving', unpack(stays))
end
return {#dropped, gone}
