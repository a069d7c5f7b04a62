package pages

import (
	"os"
	"os/exec"
	"testing"

	"sluice/servicetest"
)

// What the operator's charts draw: seconds that are asked for piece by piece come
// together, each once, with nulls where nothing is known, and never more than 900.
func TestHistoryComesTogether(t *testing.T) {
	t.Parallel()
	node := servicetest.Program(t, "node")
	const run = `
		import assert from 'node:assert/strict';
		const { Past } = await import('data:text/javascript,' + encodeURIComponent(process.argv[1]));
		const answer = (from, waiting, more = {}) => ({ line: 'x', step_ms: 1000, from: from * 1000, waiting, ...more });
		const past = new Past();
		past.add(answer(0, []));
		assert.equal(past.length, 0);

		past.add(answer(10, [1, 2, 3], { order_ms: { p50: [5, 6, 7] }, processes: { a: [1, 1, 1] } }));
		assert.deepEqual([past.end, past.column('waiting'), past.column('order_ms.p50')], [12000, [1, 2, 3], [5, 6, 7]]);

		past.add(answer(12, [9, 4], { processes: { b: [8, 8] } })); // second 12 is here already
		assert.deepEqual([past.end, past.column('waiting'), past.column('order_ms.p50')], [13000, [1, 2, 3, 4], [5, 6, 7, null]]);
		assert.deepEqual(past.below('processes'), [['a', [1, 1, 1, null]], ['b', [null, null, null, 8]]]);
		past.add(answer(11, [9, 9]));
		assert.deepEqual(past.column('waiting'), [1, 2, 3, 4]);

		past.add(answer(16, [7])); // nobody asked for 14 and 15
		assert.deepEqual(past.column('waiting'), [1, 2, 3, 4, null, null, 7]);

		for (let second = 17; second < 2000; second += 4) past.add(answer(second, [1, 2, 3, 4]));
		assert.equal(past.length, 900);
		assert.ok([...past.columns.values()].every((values) => values.length === 900));
		assert.deepEqual([...past.columns.keys()], ['waiting'], 'columns of nothing but nulls stay');
		assert.equal(past.end, 2000000);

		past.add(answer(4000, [5])); // away for longer than is kept
		assert.deepEqual([past.end, past.column('waiting')], [4000000, [5]]);
		past.add(answer(3800, [6, 6])); // a server whose clock is behind
		assert.deepEqual([past.end, past.column('waiting')], [3801000, [6, 6]]);`
	script, err := os.ReadFile("assets/history.js")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", run, string(script)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
