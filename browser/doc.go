// Package browser tests the pages in a real Chromium, against running processes of
// Sluice: embedded, and on Redis and MariaDB.
//
// A test never waits for a time to pass, but for what the page then shows. What a page
// complains about on its console, a violation of its content security policy among it,
// fails the test that had it open.
package browser
