package web

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/servicetest"
)

// The pages' own search finds what the server takes. Node stands for the browser.
func TestPagesSolveProofs(t *testing.T) {
	t.Parallel()
	node := servicetest.Program(t, "node")
	const run = `
		const fs = require('fs');
		let found = '';
		globalThis.postMessage = (proof) => { found += proof + '\n'; };
		(0, eval)(fs.readFileSync(process.argv[1], 'utf8'));
		for (const [challenge, bits] of JSON.parse(process.argv[2])) onmessage({ data: { challenge, bits: Number(bits) } });
		process.stdout.write(found);`
	p := must(NewProofs(testSecret, 10))(t)
	now := time.Now()
	var tasks []string
	for range 20 {
		tasks = append(tasks, `["`+p.challenge(DefaultLine, now)+`","10"]`)
	}
	script := must(filepath.Abs("pages/assets/solve.js"))(t)
	out, err := exec.CommandContext(t.Context(), node, "-e", run, script, "["+strings.Join(tasks, ",")+"]").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	proofs := strings.Fields(string(out))
	if len(proofs) != len(tasks) {
		t.Fatalf("%d proofs of %d", len(proofs), len(tasks))
	}
	for _, proof := range proofs {
		if why := p.judge(proof, DefaultLine, now); why != "" {
			t.Errorf("%s: %s", proof, why)
		}
	}
}
