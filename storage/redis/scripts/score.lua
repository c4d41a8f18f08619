-- Keep scores of jobs that have ended, each named by its job's record: who deletes the job finds it
-- there (`unscore`). A job has one; none if it was deleted meanwhile, or is going to the archive.
-- KEYS none. ARGV: 1 scores that are kept at most; then of each score: id of its job, document
-- Returns how many were kept.
local kept = 0
for at = 2, #ARGV, 2 do
  local key = 'job:' .. ARGV[at]
  local r = redis.call('HMGET', key, 'finished_at', 'score')
  if r[1] and not r[2] and redis.call('HEXISTS', 'archiving', ARGV[at]) == 0 then
    redis.call('HSET', key, 'score', redis.call('XADD', 'scores', '*', 'score', ARGV[at + 1]))
    kept = kept + 1
  end
end
redis.call('XTRIM', 'scores', 'MAXLEN', ARGV[1])
return kept
