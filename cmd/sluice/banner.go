package main

import (
	"fmt"
	"io"
	"net"
	"strings"

	"sluice/configs"
)

// writeBanner says where to click and what the service stands on.
func (a *app) writeBanner(w io.Writer) error {
	public, admin := clickable(a.public), clickable(a.admin)
	var b strings.Builder
	row := func(name, value string) { fmt.Fprintf(&b, "  %-14s%s\n", name, value) }
	fmt.Fprintf(&b, "Sluice %s is open.\n\n", versionText())
	if a.cfg.Role != configs.RoleOrders {
		row("Shop", public+"/")
		row("Waiting page", public+"/wait")
		row("Operator", admin+"/admin")
	} else { // no pages here
		row("Orders", public+"/orders")
		row("Operator", admin+"/metrics")
	}
	b.WriteByte('\n')
	row("Line", a.lineStore)
	if a.orderStore != "" {
		row("Orders in", a.orderStore)
		row("Payments", a.payments)
	}
	if a.cfg.Orders.TestDelay > 0 {
		row("Experiment", "every order is delayed by "+a.cfg.Orders.TestDelay.String())
	}
	b.WriteString("\nStop it with Ctrl-C.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// clickable is the listener's URL for a browser on this machine: "all
// addresses" is no address to go to.
func clickable(ln net.Listener) string {
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsUnspecified() {
		return "http://" + ln.Addr().String()
	}
	return fmt.Sprintf("http://localhost:%d", addr.Port)
}
