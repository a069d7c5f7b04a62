package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"sluice/queue"
)

func newAudit() *cobra.Command {
	var exportPath, statusPath string
	cmd := &cobra.Command{
		Use:   "audit --export line.csv [--status status.json]",
		Short: "Check an exported line, and its published draw",
		Long: "Check what an operator has exported of a line (GET /admin/api/lines/{line}/audit)\n" +
			"against itself, and against the draw that was published (GET /queue/status), if\n" +
			"there was one: whether the seed is the one that was announced, every early ticket\n" +
			"has the place that seed and ticket id give, none was added or taken away after the\n" +
			"opening, and visitors went in by their places.\n\n" +
			"Exit code 0: all right; 1: there are findings; 2: it cannot be checked, also\n" +
			"because the seed of a draw is not published yet.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if exportPath == "-" && statusPath == "-" {
				return errors.New("only one of --export and --status can be standard input")
			}
			records, err := readInput(cmd.InOrStdin(), exportPath, queue.ReadCSV)
			if err != nil {
				return &failure{exitUsage, fmt.Errorf("--export: %w", err)}
			}
			var draw *queue.Draw
			if statusPath != "" {
				if draw, err = readInput(cmd.InOrStdin(), statusPath, readDraw); err != nil {
					return &failure{exitUsage, fmt.Errorf("--status: %w", err)}
				}
			}
			return audit(cmd.OutOrStdout(), records, draw, statusPath != "")
		},
	}
	cmd.Flags().StringVar(&exportPath, "export", "", "CSV `file` of the line; - is standard input")
	cmd.Flags().StringVar(&statusPath, "status", "", "JSON `file` of the line's status; - is standard input")
	_ = cmd.MarkFlagRequired("export") // fails for a flag that is not there
	return cmd
}

// readInput reads a named file, or standard input for "-".
func readInput[T any](stdin io.Reader, path string, read func(io.Reader) (T, error)) (T, error) {
	if path == "-" {
		return read(stdin)
	}
	var none T
	file, err := os.Open(path)
	if err != nil {
		return none, err
	}
	defer func() { _ = file.Close() }()
	got, err := read(file)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return got, nil
}

// readDraw takes the draw out of a line's status; nil if it has none.
func readDraw(r io.Reader) (*queue.Draw, error) {
	var status struct {
		Line string `json:"line"`
		Draw *struct {
			SeedSHA256    string `json:"seed_sha256"`
			Seed          string `json:"seed"`
			TicketsSHA256 string `json:"tickets_sha256"`
		} `json:"draw"` // null is empty
	}
	if err := json.NewDecoder(r).Decode(&status); err != nil {
		return nil, fmt.Errorf("is not the status of a line: %w", err)
	}
	if status.Line == "" {
		return nil, errors.New("is not the status of a line: it names none")
	}
	if status.Draw == nil {
		return nil, nil
	}
	draw := (*queue.Draw)(status.Draw)
	return draw, draw.Validate()
}

// audit prints what there is to say and fails if something is wrong. Of what was
// not checked it says so: silence would read as a proof.
func audit(w io.Writer, records []queue.Record, draw *queue.Draw, hasStatus bool) error {
	if draw == nil {
		draw = &queue.Draw{}
	}
	var wrong, notes int
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	for _, f := range queue.Audit(records, *draw) {
		kind := "wrong"
		if f.Note {
			kind = "note"
			notes++
		} else {
			wrong++
		}
		say("%s: %s", kind, f.Text)
	}
	switch {
	case !hasStatus:
		say("The draw was not checked: that needs --status.")
	case *draw == (queue.Draw{}):
		say("The line had no draw.")
	case draw.Seed == "" || draw.TicketsSHA256 == "":
		say("The draw was not checked fully: its seed or the hash of its tickets is not published yet.")
		if wrong == 0 {
			return &failure{exitUsage, errors.New("the draw cannot be checked with this status: take one from after the opening")}
		}
	}
	if wrong > 0 {
		return &failure{exitFailed, fmt.Errorf("%d tickets: %d wrong, %d notes", len(records), wrong, notes)}
	}
	say("%d tickets: all right, %d notes.", len(records), notes)
	return nil
}
