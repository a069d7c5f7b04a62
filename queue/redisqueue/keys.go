package redisqueue

// keys are all that a line keeps in Redis. Every key has the line's hash tag,
// so that a line lives in one slot of a cluster and its scripts may touch all
// of it. No key expires unless said here.
//
// The number in the name of meta is that of this layout. A line of another one has
// no such key, so it counts as lost: what is under the other names goes, whatever
// its form, and its visitors come back with their tickets. Versions of two layouts
// cannot serve a line at the same time.
//
//	meta:3   HASH  created (ms: the incarnation of this store), lost_at and
//	               hold_until (ms: the loss of this incarnation and the end of
//	               its hold), epoch, floor (the last place given, µs), started
//	               (1 once a place was given that was not drawn), settings,
//	               counters, lag_ms; the ticker's batch_at (µs), carry (permits),
//	               head (the highest place let in), moved (how many moves were noted), stall_from and stall_till (µs: the
//	               last batch before the last stall and the first after it); the sweep's told_ms,
//	               told_at, swept_at, marked_at, listening (ms), zone (positions)
//	               and passed (up to which place those away are due to be given up)
//	waiting  ZSET  member subject, score place (drawn, or µs)
//	away     ZSET  member subject, score place: stopped polling, may return
//	lapse    ZSET  member subject of those away whom the head has passed, score
//	               when the place is given up (ms)
//	seen     ZSET  member subject, score when the next poll is due (ms): those of
//	               the zone near the head at the last marking, and who was heard
//	               since
//	tickets  HASH  subject → ticket id, for everybody waiting, away or admitted
//	early    HASH  ticket id → entered (ms), for all early tickets of this epoch
//	admitted HASH  ticket id → "place:admitted_at:not_before:expires_at:fetched:
//	               marks:subject" (times in ms, 0 if not yet; marks the sum of 1 if
//	               arrived and 2 if let in without the line), for live admissions
//	inside   ZSET  member ticket id, score expires_at (ms), for admissions whose
//	               token may be in use, also after their visitor left
//	ended    HASH  ticket id → "code:until:place:admitted_at:fetched:marks"
//	               (until when it is remembered in s, times in ms, 0 if not known)
//	forget   LIST  "until:ticket id", in the order in which ends are forgotten:
//	               all are remembered equally long, so a queue is enough
//	aliases  HASH  ticket id → the earlier ticket id of the same subject;
//	               expires one ticket lifetime after the last entry
//	cohorts  HASH  Unix second → "admitted:arrived", of the latest
//	               queue.MaxCohorts seconds in which somebody was let in
//	moves    LIST  the latest 10,000 moves: "+place:subject" put in elsewhere than at the
//	               end, "-place:subject" taken out, "<place:" all before it let in
type keys struct {
	meta, waiting, away, tickets, early, admitted, ended string
	// all are in the order in which prelude.lua names them.
	all []string
}

// names of the keys, in the order in which prelude.lua names them.
var names = []string{
	"meta:3", "waiting", "away", "lapse", "seen", "tickets", "early", "admitted", "inside", "ended", "forget", "aliases", "cohorts", "moves",
}

func keysOf(line string) keys {
	tag := "sluice:{" + line + "}:"
	k := keys{
		meta: tag + "meta:3", waiting: tag + "waiting", away: tag + "away", tickets: tag + "tickets",
		early: tag + "early", admitted: tag + "admitted", ended: tag + "ended",
	}
	for _, name := range names {
		k.all = append(k.all, tag+name)
	}
	return k
}
