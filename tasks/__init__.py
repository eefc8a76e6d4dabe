"""SeqIO tasks and mixtures; importing this package registers them.

Their names and contents are listed in `jaxaug.feed.recipes`, `tasks.adapters`,
`tasks.paraphrase`, and `tasks.personachat`. Data sets of other packages add theirs
(`tasks.others`). Registration reads only folder names; a record cache is built when a
split is first used. The data folder and the vocabulary come from `$JAXAUG_DATA_DIR` and
`$JAXAUG_VOCABULARY` at the time of import.
"""

from tasks import adapters, dst, others, paraphrase, personachat

adapters.register()
dst.register()
paraphrase.register()
personachat.register()
others.register()
