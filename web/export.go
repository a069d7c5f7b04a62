package web

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/queue"
)

// exportTimeout bounds the reading of all that is recorded of a line, and then
// its way to the operator: it may be 100 MB.
const exportTimeout = 5 * time.Minute

// auditLine exports what is recorded of every ticket of the epoch. It costs hundreds
// of MB for a large line, so no page that the operator has open elsewhere may ask for
// it, though it could not read the answer.
func (s *Server) auditLine(c *fiber.Ctx) error {
	if err := sameSite(c); err != nil {
		return err
	}
	l, err := s.lineByID(c.Params("line"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), exportTimeout)
	defer cancel()
	records, err := l.line.Export(ctx)
	if err != nil {
		return queueError("exporting a line", err)
	}
	// Read after the records: what was a secret when they were must not be told by
	// an older view.
	if err := l.watch.Refresh(ctx); err != nil {
		return queueError("reading a line after its export", err)
	}
	view, _ := l.watch.View()
	if !drawn(view) {
		hideDraw(records)
	}
	c.Set(fiber.HeaderContentType, "text/csv; charset=utf-8")
	c.Set(fiber.HeaderContentDisposition, fmt.Sprintf(`attachment; filename="sluice-%s-%d.csv"`, l.id, view.Epoch))
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		_ = queue.WriteCSV(w, records) // who went away does not read it
	})
	return nil
}

// hideDraw takes the drawn places out, and their order with them: before the
// opening nobody may know them, operators included.
func hideDraw(records []queue.Record) {
	for i := range records {
		if records[i].Place <= queue.MaxDrawn {
			records[i].Place = 0
		}
	}
	slices.SortFunc(records, func(a, b queue.Record) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), a.EnteredAt.Compare(b.EnteredAt), strings.Compare(a.TicketID, b.TicketID))
	})
}
