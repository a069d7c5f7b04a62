// Package pages is what people look at: the waiting page, the demo shop and the
// operator's page, as files ready to be sent, in the shop's name, colours and words.
//
// [New] takes in what a shop changes ([Options]), reports all mistakes in it at once,
// and prepares every file: compressed, with an entity tag, below a path that names its
// version. Nothing of a page's shell depends on who asks, so whatever stands in front
// may keep all of it; what is one visitor's own comes from the API, or from [Pages.Plain],
// which is the waiting page for browsers without scripts.
//
// The package knows neither HTTP nor lines: web sends what is here.
package pages
