// Command pictures plays the scenarios of the simulation and writes the pictures and
// the table of docs/control.md: go run ./admission/simulation/pictures [docs]
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sluice/admission/simulation"
)

func main() {
	docs := "docs"
	if len(os.Args) > 1 {
		docs = os.Args[1]
	}
	if err := write(docs); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(docs string) error {
	files, err := simulation.Documents(docs)
	if err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(docs, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("a folder for the pictures: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("a file of the documentation: %w", err)
		}
	}
	return nil
}
