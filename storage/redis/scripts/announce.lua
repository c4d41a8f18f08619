-- Say which forms a process reads, and learn which may be written: those that every process has read
-- for a while, so that an upgrade can be taken back until then.
-- KEYS none. ARGV: 1 process, 2 newest schema number it reads, 3 for how long it is there (ms; 0: it
--   ends), 4 how long all must read a newer number before that is written (ms)
-- Returns the number in force.
local READERS, SINCE = 'schema:readers', 'schema:since'
local reads = tonumber(ARGV[2])
local member = reads .. ' ' .. ARGV[1]

redis.call('ZREMRANGEBYSCORE', READERS, '-inf', now)
if ARGV[3] == '0' then
  redis.call('ZREM', READERS, member)
else
  redis.call('ZADD', READERS, now + ARGV[3], member)
end

local function least_read()
  local least = reads
  for _, each in ipairs(redis.call('ZRANGE', READERS, 0, -1)) do
    least = math.min(least, tonumber(string.match(each, '^%d+')))
  end
  return least
end

local function raise(to)
  redis.call('SET', 'schema', to)
  redis.call('DEL', SINCE)
  return to
end

local least = least_read()
local found = redis.call('GET', 'schema')
if not found and redis.call('EXISTS', 'stats') == 0 then  -- nothing was written yet
  return raise(least)
end
local force = tonumber(found or '1')
if least <= force or ARGV[3] == '0' then
  redis.call('DEL', SINCE)
  return force
end
local since = redis.call('GET', SINCE)
if not since then
  redis.call('SET', SINCE, now)
  since = now
end
if now - tonumber(since) >= tonumber(ARGV[4]) then
  return raise(least)
end
return force
