package admission_test

import (
	"testing"
	"testing/synctest"

	"sluice/admission"
	"sluice/admission/registertest"
)

func TestLocalRegister(t *testing.T) {
	registertest.Run(t, synctest.Test, func(*testing.T) (a, b admission.Register) {
		r := admission.NewLocalRegister()
		return r, r
	})
}
