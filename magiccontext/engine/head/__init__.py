"""The head of the prompt: what stands before the live conversation (history-render).

    model        what a render reads and what it makes
    decay        how compartments lose detail with age
    history      the text of one compartment, and of all of them
    escapes      how foreign text is kept from looking like structure
    selection    which memories and profile entries fit, and who may see them
    m0, m1       the bytes of the two synthetic messages
    budgets      how many tokens each may take
    materialize  when m[0] is rendered anew, and what that means for the provider's cache
    cut          which raw messages are no longer sent
    render       the entry points: fold, refresh, due

Everything here is a function of values: the same snapshot, budgets and token counter give the same bytes.
"""
