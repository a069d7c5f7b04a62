package redisqueue

// keys are all that a line keeps in Redis. Every key has the line's hash tag,
// so that a line lives in one slot of a cluster and its scripts may touch all
// of it. No key expires unless said here.
//
//	meta     HASH  epoch, floor (the last place given, µs), settings,
//	               counters, and the ticker's batch_at (µs) and carry (permits)
//	waiting  ZSET  member subject, score place (µs)
//	away     ZSET  member subject, score place (µs): stopped polling, may return
//	tickets  HASH  subject → ticket id, for everybody waiting, away or admitted
//	admitted HASH  ticket id → "place:admitted_at:not_before:expires_at:subject"
//	               (place in µs, times in ms), for live admissions
//	inside   ZSET  member ticket id, score expires_at (ms), for admissions whose
//	               token may be in use, also after their visitor left
//	ended    ZSET  member ticket id, score remember_until (s) × 8 + code
//	aliases  HASH  ticket id → the earlier ticket id of the same subject;
//	               expires one ticket lifetime after the last entry
type keys struct {
	meta, waiting, away, tickets, admitted, inside, ended, aliases string
	all                                                            []string
}

func keysOf(line string) keys {
	tag := "sluice:{" + line + "}:"
	k := keys{
		meta: tag + "meta", waiting: tag + "waiting", away: tag + "away", tickets: tag + "tickets",
		admitted: tag + "admitted", inside: tag + "inside", ended: tag + "ended", aliases: tag + "aliases",
	}
	k.all = []string{k.meta, k.waiting, k.away, k.tickets, k.admitted, k.inside, k.ended, k.aliases}
	return k
}
