package standin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"sluice/orders"
)

// maxBody bounds a request, in bytes.
const maxBody = 64 << 10

// Handler serves the protocol of package httpprovider:
//
//   - POST /charges makes a charge. 400 for a request that cannot be understood, 422
//     for a key that stands for another payment.
//   - GET /charges is the [Report] as JSON.
//
// An answer that is never sent ends with the request's context; then the connection is
// cut.
func (s *Standin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", s.serveCharge)
	mux.HandleFunc("GET /charges", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, s.Report())
	})
	return mux
}

func (s *Standin) serveCharge(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	var asked struct {
		OrderID string `json:"order_id"`
		Amount  int64  `json:"amount"`
		Method  string `json:"method"`
	}
	// All of it: the server notices that a client leaves only after that.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil || key == "" || asked.OrderID == "" || asked.Amount < 1 {
		http.Error(w, "wanted: an Idempotency-Key, and JSON with order_id, amount and method", http.StatusBadRequest)
		return
	}
	o, err := s.charge(r.Context(), key, terms{asked.OrderID, asked.Amount, asked.Method})
	switch {
	case errors.Is(err, errOtherTerms):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	case err != nil:
		panic(http.ErrAbortHandler) // the client has left, or the server stops
	case o.Paid:
		reply(w, http.StatusOK, map[string]any{"state": orders.Paid, "reference": o.Reference})
	default:
		reply(w, http.StatusPaymentRequired, map[string]any{"state": orders.Declined, "reason": o.Reason})
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have left
}
