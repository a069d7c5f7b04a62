package pages

const ownFolder = "own/"
