-- Delete the scores of jobs that are about to be forgotten: they hold prompts. These jobs get none
-- any more, whoever looks at their images just then.
-- KEYS none. ARGV: 1 and on: ids
-- Returns how many were deleted.
local deleted = 0
for _, id in ipairs(ARGV) do
  local key = 'job:' .. id
  local r = redis.call('HMGET', key, 'finished_at', 'score')
  if r[1] then
    if r[2] and r[2] ~= '' then
      deleted = deleted + redis.call('XDEL', 'scores', r[2])
    end
    redis.call('HSET', key, 'score', '')
  end
end
return deleted
