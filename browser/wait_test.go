package browser

func waiting(w world) {
	line := w.line(still)
	ahead := w.enter(line, 3)
	p := w.tab()
	p.goTo(w.public + "/wait?line=" + line)
	p.click("#enter")
	p.untilText("#position", "^4$")
	ahead[0].leave()
	p.untilText("#position", "^3$")
}
